"""A generation before it is there, and the session that it may continue."""

from dataclasses import dataclass
from pathlib import Path

from agents.herd_definition import HerdDefinition
from agents.herdsman.identity import Correlation, GenerationId, Handle, Label, SessionId
from engine.core.spec import ModelChoice


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A session of an agent that has ended, to be continued.

    Attributes:
        model: what it was led with last; None where the file does not tell.
    """

    session: SessionId
    file: Path
    cwd: str
    definition: str
    label: Label
    model: ModelChoice | None = None


@dataclass(frozen=True, slots=True)
class Birth:
    """A generation that is about to be started.

    Attributes:
        cwd: where the agent works.
        definition: as it holds for this agent; see `agents.herdsman.policy`.
        is_delegating: it may delegate itself, to the definitions that `definition` lists.
        session: that it continues; None where it begins a new one.
    """

    generation: GenerationId
    owner: SessionId
    workspace: str
    label: Label
    cwd: str
    definition: HerdDefinition
    is_delegating: bool = False
    session: SavedSession | None = None

    def at(self, handle: Handle) -> Correlation:
        """Return what the generation is known by where it runs."""
        return Correlation(self.generation, self.owner, self.workspace, self.label, handle)
