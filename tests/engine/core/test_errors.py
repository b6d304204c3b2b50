import pytest

from engine.core.errors import (
    ConflictError,
    CorruptionError,
    ExternalError,
    HeldElsewhereError,
    PinataError,
    UsageError,
)


@pytest.mark.parametrize("branch", [UsageError, ConflictError, ExternalError, CorruptionError])
def test_every_branch_is_told_apart_from_the_others(branch: type[PinataError]) -> None:
    error = branch("the lamp is out")
    assert isinstance(error, PinataError)
    assert str(error) == "the lamp is out"
    others = {UsageError, ConflictError, ExternalError, CorruptionError} - {branch}
    assert not isinstance(error, tuple(others))


def test_a_lock_held_elsewhere_is_a_conflict_that_names_the_holder() -> None:
    error = HeldElsewhereError("run r1", "process 7")
    assert isinstance(error, ConflictError)
    assert (error.what, error.holder) == ("run r1", "process 7")
    assert str(error) == "run r1 is held by process 7"
