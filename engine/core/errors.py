"""The exception tree: a branch says what the caller can do, a leaf says what happened.

* PinataError
  - UsageError          the call cannot mean anything: mend the arguments or the job
  - ConflictError       the state of things refuses it: look, settle that, call again
    + HeldElsewhereError    a live process owns what the call needs
  - ExternalError       a program, the machine or something outside failed
  - CorruptionError     stored bytes break a promise; nothing was done

Leaves live beside the code that raises them. Messages start in lower case, have no full stop,
name the thing and say what to do about it when that is known.
"""


class PinataError(Exception):
    """Base of every error that pinata raises on purpose."""


class UsageError(PinataError):
    """The caller asked for something impossible."""


class ConflictError(PinataError):
    """The state of the repository, the run or its owner does not allow it now."""


class HeldElsewhereError(ConflictError):
    """A live process holds what the call needs."""

    def __init__(self, what: str, holder: str) -> None:
        self.what = what
        self.holder = holder
        super().__init__(f"{what} is held by {holder}")


class ExternalError(PinataError):
    """A program, the machine or a service outside failed."""


class CorruptionError(PinataError):
    """Stored bytes break a promise that pinata made; do not continue from them."""


def reason_of(error: OSError | PinataError) -> str:
    """Return why something failed; of what the machine refused, without the file it was about."""
    if isinstance(error, PinataError):
        return str(error)
    # An error that a library made of a text alone has no other words.
    return error.strerror or str(error)
