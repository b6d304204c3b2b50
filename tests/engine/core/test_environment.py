import re

import pytest

from engine.core.environment import child_environment, validate_pass_env
from engine.core.errors import UsageError

MARKS = {"PINATA_AGENT": "1", "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}


def test_only_listed_names_and_the_marks_reach_a_child() -> None:
    base = {"PATH": "/bin", "HOME": "/home/me", "SECRET": "x", "LD_PRELOAD": "/evil.so"}
    assert child_environment(base) == {"PATH": "/bin", "HOME": "/home/me", **MARKS}


def test_a_passed_name_comes_over_and_an_unset_one_is_skipped() -> None:
    assert child_environment({"OK": "y", "SECRET": "x"}, ["OK", "UNSET"]) == {"OK": "y", **MARKS}


def test_extra_variables_win_over_the_base_but_not_over_the_marks() -> None:
    base = {"TERM": "xterm", "PINATA_AGENT": "0"}
    made = child_environment(base, (), {"TERM": "dumb", "EXTRA": "1", "PINATA_AGENT": ""})
    assert made == {"TERM": "dumb", "EXTRA": "1", **MARKS}


@pytest.mark.parametrize("name", ["OK", "A", "CI_TOKEN", "X1_", "PIP_INDEX", "GITHUB_TOKEN"])
def test_a_plain_name_may_be_passed(name: str) -> None:
    validate_pass_env(name)


@pytest.mark.parametrize("name", ["", "lower", "Mixed", "1A", "_A", "A-B", "A=B", "A\n", "Ä"])
def test_what_is_no_upper_case_name_is_refused_by_name_and_rule(name: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{name!r} is not a variable name")):
        validate_pass_env(name)


@pytest.mark.parametrize("name", ["PINATA_AGENT", "HERDR_X", "PI_X"])
def test_a_reserved_name_is_refused_with_its_prefix(name: str) -> None:
    prefix = name[: name.index("_") + 1]
    with pytest.raises(UsageError, match=f"'{name}' is reserved: .* {prefix}$"):
        validate_pass_env(name)


@pytest.mark.parametrize(
    "name",
    ["NODE_OPTIONS", "LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "DYLD_INSERT_LIBRARIES", "GIT_DIR"],
)
def test_a_name_that_injects_code_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' can make programs run other code"):
        validate_pass_env(name)
