"""What the herd's tools answer when they do not do what was asked.

Every expected failure is one of these: it says what was tried, whether something was undone, and
what helps. Nothing else of the herd reaches a model as an error.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.core.errors import PinataError


class Category(enum.Enum):
    """What kind of failure it was."""

    NOT_RUNNING_INSIDE_HERDR = "not_running_inside_herdr"
    AGENT_LABEL_EXISTS = "agent_label_exists"
    PANE_NOT_READY = "pane_not_ready"
    TARGET_NOT_FOUND = "target_not_found"
    TARGET_AMBIGUOUS = "target_ambiguous"
    ROLLBACK_FAILURE = "rollback_failure"
    AGENT_BUSY = "agent_busy"
    INVALID_REQUEST = "invalid_request"
    INTERNAL_FAILURE = "internal_failure"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One failure, as a tool answers it.

    Attributes:
        message: a sentence.
        operation: what was tried, such as `delegate`.
        rollback_occurred: everything that the attempt had made is gone again.
        retry_attempted: a retry, or a cleanup, was really scheduled or tried.
        ids: what is known of the agent: `agent`, `pane_id`, `request_id`, `session_id`.
        next_action: what helps; empty when nothing is known to.
        primary: what went wrong first, where cleaning up went wrong as well.
        cleanup: what went wrong then.
        details: more facts, for those who look into the answer.
    """

    category: Category
    message: str
    operation: str = ""
    rollback_occurred: bool = False
    retry_attempted: bool = False
    ids: Mapping[str, str] = field(default_factory=dict)
    next_action: str = ""
    primary: "Trouble | None" = None
    cleanup: "Trouble | None" = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_fields(self) -> dict[str, Any]:
        """Return it as the `error` of an answer; what is empty is left out."""
        told: dict[str, Any] = {
            "category": self.category.value,
            "message": self.message,
            "operation": self.operation,
            "rollbackOccurred": self.rollback_occurred,
            "retryAttempted": self.retry_attempted,
        }
        more: dict[str, Any] = {
            "ids": dict(self.ids),
            "nextAction": self.next_action,
            "primary": None if self.primary is None else self.primary.as_fields(),
            "cleanup": None if self.cleanup is None else self.cleanup.as_fields(),
            "details": dict(self.details),
        }
        return told | {name: value for name, value in more.items() if value}


class HerdError(PinataError):
    """A call to the herd failed in a way that its caller is told of.

    Attributes:
        trouble: all that is known about it.
    """

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        super().__init__(trouble.message)

    def told(self, **changes: Any) -> "HerdError":  # noqa: ANN401 - the fields of `Trouble`
        """Return the same failure with some fields of its trouble changed."""
        return HerdError(replace(self.trouble, **changes))


def invalid(message: str, *, next_action: str = "") -> HerdError:
    """Return that the input, or what it refers to, cannot be used."""
    return HerdError(Trouble(Category.INVALID_REQUEST, message, next_action=next_action))


def busy(message: str, *, next_action: str = "") -> HerdError:
    """Return that the state of things does not allow it now."""
    return HerdError(Trouble(Category.AGENT_BUSY, message, next_action=next_action))


def not_found(message: str, *, next_action: str = "") -> HerdError:
    """Return that the agent, or that it is the caller's, cannot be shown."""
    return HerdError(Trouble(Category.TARGET_NOT_FOUND, message, next_action=next_action))


def ambiguous(message: str, *, next_action: str = "") -> HerdError:
    """Return that several things could be meant, or that what is known contradicts itself."""
    return HerdError(Trouble(Category.TARGET_AMBIGUOUS, message, next_action=next_action))


def label_exists(label: str, where: str = "this workspace") -> HerdError:
    """Return that an agent of this label is there already."""
    message = f"an agent called {label} exists in {where}"
    action = "choose another label, or close that agent first"
    return HerdError(Trouble(Category.AGENT_LABEL_EXISTS, message, next_action=action))


def broken(message: str, *, next_action: str = "") -> HerdError:
    """Return that a promise of ours, or the machine, failed."""
    return HerdError(Trouble(Category.INTERNAL_FAILURE, message, next_action=next_action))
