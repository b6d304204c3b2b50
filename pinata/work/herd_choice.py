"""What a managed agent is to be run with, and what a person changes where that cannot be."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agents.definition import Source
from agents.herd_definition import HerdDefinition
from agents.herdsman.errors import HerdError, invalid
from agents.herdsman.runtime import Launch
from engine.core.quote import name_list
from engine.core.spec import Backend, ModelChoice, Thinking
from pinata.work.definitions import USER_FOLDER


def where_to_state(definition: HerdDefinition, agent_dir: Path | None) -> str:
    """Return which file a person changes to have a definition say something else.

    What comes with pinata is not changed where it lies: the next release would take that back.
    """
    if agent_dir is None or definition.sources[-1:] != (Source.PRESET,):
        return definition.file
    own = agent_dir / USER_FOLDER / f"{definition.name}.md"
    return f"{own}, a file of yours that lies over the bundled one"


def wanted_backends(definition: HerdDefinition, where: str) -> tuple[Backend, ...]:
    """Return what may run an agent, the preferred one first.

    Args:
        definition: as it holds for the agent.
        where: see `where_to_state`.

    Raises:
        HerdError: it asks for one that there is not; INVALID_REQUEST.
    """
    if definition.backend is Backend.HERDR_PI:
        raise invalid(
            f"the definition {definition.name} asks for the backend herdr-pi, which is not in "
            "this release",
            next_action=f"state the `backend` process or in-process, or none, in {where}",
        )
    if definition.backend is not None:
        return (definition.backend,)
    return Backend.PROCESS, Backend.IN_PROCESS


def wanted_model(launch: Launch, where: str) -> ModelChoice:
    """Return the model of an agent: what its definition states, the rest as its owner has it.

    Args:
        launch: the agent's.
        where: see `where_to_state`.

    Raises:
        HerdError: nobody says which; INVALID_REQUEST.
    """
    definition, given = launch.birth.definition, launch.model
    thinking = definition.thinking or (Thinking.OFF if given is None else given.thinking)
    if definition.model is not None:
        return ModelChoice(*definition.model, thinking)
    if given is None:
        raise invalid(
            f"no model is known for the definition {definition.name}: it states none, and nobody "
            "knows with which one the session works",
            next_action=f"choose a model in the session, or state one as `model` in {where}",
        )
    return replace(given, thinking=thinking)


def no_model(
    launch: Launch, choice: ModelChoice, tried: Mapping[str, Sequence[str]], where: str
) -> HerdError:
    """Return that nothing can run an agent with its model; each reason is told once.

    Args:
        launch: the agent's.
        choice: the model.
        tried: by each reason, the backends that it holds for.
        where: see `where_to_state`.
    """
    reasons = (f"{name_list(backends)}: {reason}" for reason, backends in tried.items())
    return invalid(
        f"the agent {launch.birth.label} cannot have the model {choice.provider}/{choice.id}: "
        f"{'; '.join(reasons)}",
        next_action=f"state another `model` or `backend` in {where}",
    )
