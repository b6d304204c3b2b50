"""The session that a call to the herd comes from."""

from dataclasses import dataclass

from agents.herdsman.identity import SessionId
from engine.core.spec import ModelChoice


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls.

    Attributes:
        session: of the caller; it becomes the owner of what it starts.
        workspace: the top of the working tree that it stands in, else the real path of `cwd`.
        cwd: where it stands, absolute and real.
        is_lead: it is a person's session, and no agent's.
        allowed: the definitions that it may use; None allows all.
        model: what it works with itself; None where that is not known.
    """

    session: SessionId
    workspace: str
    cwd: str
    is_lead: bool
    allowed: frozenset[str] | None = None
    model: ModelChoice | None = None
