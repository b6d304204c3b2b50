"""What changes files is asked for in so many words."""

import pytest

from pinata.faces import cli

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["person", "program"])
def test_rollback_must_be_meant(more: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rollback", "ab", *more], {}) == 2
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "--confirm is missing: add it, since files will be changed" in shown.err
