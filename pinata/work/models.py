"""Which model works on which task, and how one is opened for an attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from agents.definition import Definition
from agents.models.port import Model
from agents.models.script import Script, read_script
from agents.models.scripted import PROVIDER as SCRIPTED, ScriptedModel
from engine.core.errors import ExternalError
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import Backend, ModelChoice, RunConfig, RunSpec, TaskSpec, Thinking


class NoModelError(ExternalError):
    """No model that could work on a task can be reached."""

    def __init__(self, task: TaskId, tried: Sequence[str]) -> None:
        self.task = task
        self.tried = tuple(tried)
        found = "; ".join(tried) or (
            "none is named: set `model` on the task, or `models.default` in the run's config"
        )
        super().__init__(f"task {task}: no model: {found}")


class NoBackendError(ExternalError):
    """What should run an agent's loop is not there."""

    def __init__(self, task: TaskId, backend: Backend) -> None:
        self.task = task
        self.backend = backend
        super().__init__(
            f"task {task}: backend {backend.value} is not available here: use in-process"
        )


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The model of one task.

    Attributes:
        passed_over: the models that were preferred, each with the reason.
    """

    choice: ModelChoice
    script: Script
    passed_over: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Provider and id, for people."""
        return f"{self.choice.provider}/{self.choice.id}"

    def open(self, attempt: AttemptId, values: Mapping[str, str]) -> Model:
        """Return the model for one attempt; `values` are what a script may refer to."""
        return ScriptedModel(self.script, self.choice.id, attempt.task, attempt.number, values)


async def choose_models(
    spec: RunSpec, definitions: Mapping[str, Definition], base: Path
) -> dict[TaskId, ChosenModel]:
    """Return the model of each task: the first of those named for it that can be reached.

    Args:
        spec: the request; of a task's own model, its definition's entry in `models`, the default
            one and the definition's own, the first that is there is preferred, then the fallbacks.
        definitions: of every agent that a task names.
        base: the folder that relative paths of scripts start from.

    Raises:
        NoModelError: a task has none; says what was tried and why it did not do.
        NoBackendError: a task asks for a backend that is not there.
        ScriptError: a script is not what it must be.
    """
    scripts: dict[str, Script] = {}
    chosen: dict[TaskId, ChosenModel] = {}
    for task in spec.tasks:
        _check_backend(task, definitions[task.agent], spec.config)
        tried: list[str] = []
        for choice in _candidates(task, definitions[task.agent], spec.config):
            if choice.provider != SCRIPTED:
                tried.append(f"{choice.provider}/{choice.id}: no such provider here")
                continue
            if choice.id not in scripts:
                scripts[choice.id] = await trio.to_thread.run_sync(read_script, base / choice.id)
            chosen[task.id] = ChosenModel(choice, scripts[choice.id], tuple(tried))
            break
        else:
            raise NoModelError(task.id, tried)
    return chosen


def _check_backend(task: TaskSpec, definition: Definition, config: RunConfig) -> None:
    backend = task.backend or definition.backend or config.backend
    if backend is not Backend.IN_PROCESS:
        raise NoBackendError(task.id, backend)


def _candidates(
    task: TaskSpec, definition: Definition, config: RunConfig
) -> tuple[ModelChoice, ...]:
    preferred = task.model or config.models.get(task.agent) or config.models.get("default")
    if preferred is None and definition.model is not None:
        provider, id_ = definition.model
        preferred = ModelChoice(provider, id_, definition.thinking or Thinking.OFF)
    first = () if preferred is None else (preferred,)
    return (*first, *config.fallbacks.get(task.agent, ()))
