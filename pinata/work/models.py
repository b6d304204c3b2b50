"""Which model works on which task, and how one is opened for an attempt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import trio

from agents.definition import Definition
from agents.models.port import Model
from agents.models.routes import Routes
from agents.models.script import Script, read_script
from agents.models.scripted import PROVIDER as SCRIPTED, ScriptedModel
from agents.pi_program import PiMissingError
from engine.core.errors import ExternalError, UsageError
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import Backend, ModelChoice, RunConfig, RunSpec, TaskSpec, Thinking
from pinata.work.lent_models import LentModel, LentModels
from pinata.work.user_pi import PiWay, UserPi

_MOST_NAMED = 10

Opener = Callable[[AttemptId, Mapping[str, str]], Model]
_Found = tuple[Opener | PiWay, bool]


class NoModelError(ExternalError):
    """No model that could work on a task can be reached."""

    def __init__(self, task: TaskId, tried: Sequence[str]) -> None:
        self.task = task
        self.tried = tuple(tried)
        found = "; ".join(tried) or (
            "none is named: set `model` on the task, or `models.default` in the run's config"
        )
        super().__init__(f"task {task}: no model: {found}")


class NoPriceError(UsageError):
    """A run has a limit in dollars, and a model of unknown price."""

    def __init__(self, task: TaskId, model: str) -> None:
        self.task = task
        self.model = model
        super().__init__(
            f"task {task}: limits.costUsd is set, but nobody knows the price of {model}: "
            "give its `cost` in models.json, or leave limits.costUsd out"
        )


class NoBackendError(ExternalError):
    """What should run an agent's loop is not there."""

    def __init__(self, task: TaskId, backend: Backend, why: str) -> None:
        self.task = task
        self.backend = backend
        super().__init__(
            f"task {task}: backend {backend.value} cannot be used: {why}; or use in-process"
        )


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The model of one task.

    Attributes:
        has_price: whether its answers' cost is known.
        way: opens the model in this process, or tells of the Pi that asks it; it decides what runs
            the agent's loop.
        passed_over: the models that were preferred, each with the reason.
    """

    choice: ModelChoice
    has_price: bool
    way: Opener | PiWay = field(repr=False)
    passed_over: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Provider and id, for people."""
        return _name(self.choice)

    @property
    def backend(self) -> Backend:
        """What runs the agent's loop."""
        return Backend.PROCESS if isinstance(self.way, PiWay) else Backend.IN_PROCESS


@dataclass(frozen=True, slots=True)
class ModelSources:
    """Where models come from, for as long as a run works.

    Attributes:
        base: the folder that relative paths of scripts start from.
        pi: the user's, for agents that are one.
        lent: by the session, for agents that run in this process.
    """

    routes: Routes
    base: Path
    pi: UserPi
    lent: LentModels = field(default_factory=lambda: LentModels(None))
    _scripts: dict[str, Script] = field(default_factory=dict)

    @property
    def scripts(self) -> Mapping[str, Script]:
        """The scripts that were read so far, by the names that choices give them."""
        return self._scripts

    async def find(self, choice: ModelChoice, backend: Backend) -> _Found | str:
        """Return the way to a model and whether its price is known, or why there is none.

        Args:
            choice: the model.
            backend: IN_PROCESS or PROCESS.

        Raises:
            PiMissingError: there is no Pi, and the agent is to be one.
            ScriptError: a script is not what it must be.
            FaultyFileError: nor is one of the user's files.
        """
        if backend is Backend.PROCESS:
            return await self._find_for_pi(choice)
        if choice.provider == SCRIPTED:
            return await self._scripted(choice.id), True
        lent = await self.lent.find(choice, self.routes)
        if isinstance(lent, LentModel):
            return lambda *_: lent.open(), lent.has_price
        route = await self.routes.find(choice.provider, choice.id)
        if isinstance(route, str):
            return f"{lent}; {route}" if lent else route
        return lambda *_: route.open(choice.thinking), route.has_price

    async def _find_for_pi(self, choice: ModelChoice) -> _Found | str:
        if choice.provider == SCRIPTED:
            return "a script is played by the backend in-process only"
        pi = self.pi
        found = await self.routes.find_for_pi(choice.provider, choice.id, pi.environment)
        return found if isinstance(found, str) else (await pi.way(found), found.has_price)

    async def _scripted(self, name: str) -> Opener:
        if name not in self._scripts:
            self._scripts[name] = await trio.to_thread.run_sync(read_script, self.base / name)
        script = self._scripts[name]
        return lambda attempt, values: ScriptedModel(
            script, name, attempt.task, attempt.number, values
        )


def with_session_model(
    spec: RunSpec, definitions: Mapping[str, Definition], session: ModelChoice | None
) -> RunSpec:
    """Return the request with a model for every task for which nobody names one.

    Args:
        spec: the request.
        definitions: of every agent that a task names.
        session: the model that whoever asks works with; None when it is not known.
    """
    if session is None:
        return spec
    tasks = [
        replace(task, model=session)
        if _named(task, definitions[task.agent], spec.config) is None
        else task
        for task in spec.tasks
    ]
    return replace(spec, tasks=tuple(tasks))


def script_notices(spec: RunSpec, sources: ModelSources) -> list[str]:
    """Return a notice for each script with turns for tasks that the run does not have.

    Args:
        spec: the request.
        sources: from which the models of its tasks were chosen.
    """
    known = {str(task.id) for task in spec.tasks}
    notices = []
    for name, script in sources.scripts.items():
        unknown = [task for task in script.tasks if task not in known]
        if unknown:
            more = "" if len(unknown) <= _MOST_NAMED else f" and {len(unknown) - _MOST_NAMED} more"
            notices.append(
                f"script {name}: no task is called {', '.join(unknown[:_MOST_NAMED])}{more}"
            )
    return notices


async def choose_models(
    spec: RunSpec, definitions: Mapping[str, Definition], sources: ModelSources
) -> dict[TaskId, ChosenModel]:
    """Return the model of each task: the first of those named for it that can be reached.

    Args:
        spec: the request; of a task's own model, its definition's entry in `models`, the default
            one and the definition's own, the first that is there is preferred, then the fallbacks.
        definitions: of every agent that a task names.
        sources: open for as long as the models are used.

    Raises:
        NoModelError: a task has none; says what was tried and why it did not do.
        NoPriceError: a task's costs could not be held against the run's limit.
        NoBackendError: a task asks for a backend that is not there.
        ScriptError: a script is not what it must be.
        FaultyFileError: one of the user's files of models and keys is not.
    """
    chosen: dict[TaskId, ChosenModel] = {}
    for task in spec.tasks:
        definition = definitions[task.agent]
        backends = _backends(task, definition, spec)
        candidates = _candidates(task, definition, spec.config)
        model = await _first_reached(task, candidates, backends, sources)
        if spec.config.limits.cost_usd is not None and not model.has_price:
            raise NoPriceError(task.id, model.name)
        chosen[task.id] = model
    return chosen


async def _first_reached(
    task: TaskSpec,
    candidates: Sequence[ModelChoice],
    backends: Sequence[Backend],
    sources: ModelSources,
) -> ChosenModel:
    tried: list[str] = []
    for choice in candidates:
        for backend in backends:
            try:
                found = await sources.find(choice, backend)
            except PiMissingError as error:
                if len(backends) == 1:
                    raise NoBackendError(task.id, backend, str(error)) from error
                found = str(error)
            if not isinstance(found, str):
                way, has_price = found
                return ChosenModel(choice, has_price, way, tuple(tried))
            tried.append(f"{_name(choice)}: {found}")
    raise NoModelError(task.id, tried)


def _name(choice: ModelChoice) -> str:
    return f"{choice.provider}/{choice.id}"


def _backends(task: TaskSpec, definition: Definition, spec: RunSpec) -> tuple[Backend, ...]:
    """Return what may run the agent of a task, the preferred one first."""
    stated = task.backend or definition.backend
    backend = stated or spec.config.backend
    if backend is Backend.HERDR_PI:
        raise NoBackendError(task.id, backend, "it is not in this release")
    if spec.survive and backend is Backend.IN_PROCESS and stated is None:
        # The session that lends its logins may leave before the run ends; a Pi has its own.
        return Backend.IN_PROCESS, Backend.PROCESS
    return (backend,)


def _candidates(
    task: TaskSpec, definition: Definition, config: RunConfig
) -> tuple[ModelChoice, ...]:
    preferred = _named(task, definition, config)
    first = () if preferred is None else (preferred,)
    return (*first, *config.fallbacks.get(task.agent, ()))


def _named(task: TaskSpec, definition: Definition, config: RunConfig) -> ModelChoice | None:
    """Return the model that is named for a task most particularly."""
    preferred = task.model or config.models.get(task.agent) or config.models.get("default")
    if preferred is None and definition.model is not None:
        provider, id_ = definition.model
        preferred = ModelChoice(provider, id_, definition.thinking or Thinking.OFF)
    return preferred
