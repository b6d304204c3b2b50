import pytest

from engine.core.errors import (
    ConflictError,
    CorruptionError,
    ExternalError,
    HeldElsewhereError,
    PinataError,
    UsageError,
    reason_of,
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


def test_what_the_machine_refused_has_a_reason_however_it_was_told() -> None:
    assert reason_of(OSError(28, "No space left on device", "a.txt")) == "No space left on device"
    assert reason_of(OSError("locks are not supported here")) == "locks are not supported here"


def test_what_pinata_refused_is_its_own_reason() -> None:
    assert reason_of(ConflictError("the run is held")) == "the run is held"
