"""The program's entry, before any face."""

import os
import sys

import pytest

from pinata.__main__ import main

PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


@pytest.mark.parametrize(("before", "after"), [(None, "__all__"), ("some", "some")])
def test_no_plugin_is_looked_for_unless_somebody_says_so(
    monkeypatch: pytest.MonkeyPatch, before: str | None, after: str
) -> None:
    # Set first, so that whatever the program makes of it is undone.
    monkeypatch.setenv(PLUGINS, before or "")
    if before is None:
        monkeypatch.delenv(PLUGINS)
    monkeypatch.setattr(sys, "argv", ["pinata", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert os.environ[PLUGINS] == after
