"""What a run is asked to do: tasks, checks, limits and configuration as plain values.

The values say nothing about where they came from; `engine.records.job` turns a request into them
and refuses what cannot be meant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from engine.core.ids import CheckId, TaskId
from engine.core.stored import STORED


class Kind(Enum):
    """What an agent may do; every rule speaks of the kind, never of a definition's name."""

    READER = "reader"
    WRITER = "writer"
    REVIEWER = "reviewer"


class Thinking(Enum):
    """How much a model should reason before it answers."""

    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class Backend(Enum):
    """What runs an agent's loop."""

    IN_PROCESS = "in-process"
    PROCESS = "process"
    HERDR_PI = "herdr-pi"


class Mode(Enum):
    """Which events a run keeps: the lasting ones, or all."""

    LEAN = "lean"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model, named as its provider names it."""

    __pydantic_config__ = STORED

    provider: str
    id: str
    thinking: Thinking


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """A command that proves something.

    Attributes:
        argv: the program and its arguments, handed over exactly as they stand; never empty.
        timeout_ms: 1 to 1,200,000.
    """

    __pydantic_config__ = STORED

    id: CheckId
    argv: tuple[str, ...]
    timeout_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class ReviewOf:
    """Review of one writer's exact captured change."""

    __pydantic_config__ = STORED

    task: TaskId


@dataclass(frozen=True, slots=True)
class ReviewBase:
    """Review of the checkout against a revision."""

    __pydantic_config__ = STORED

    revision: str


@dataclass(frozen=True, slots=True)
class ReviewPr:
    """Review of a GitHub pull request."""

    __pydantic_config__ = STORED

    number: int


ReviewTarget = ReviewOf | ReviewBase | ReviewPr


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A node of the graph.

    Attributes:
        agent: the definition's name; `kind` is that definition's kind.
        after: direct predecessors, without repeats, in the order given.
        ownership: for writers, never empty: repository-relative paths without a trailing slash.
        target: for reviewers, never absent.
    """

    __pydantic_config__ = STORED

    id: TaskId
    agent: str
    kind: Kind
    text: str
    acceptance: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    after: tuple[TaskId, ...] = ()
    model: ModelChoice | None = None
    backend: Backend | None = None
    ownership: tuple[str, ...] = ()
    checks: tuple[CheckSpec, ...] = ()
    no_checks_reason: str | None = None
    evidence_checks: tuple[CheckSpec, ...] = ()
    target: ReviewTarget | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of a run.

    Attributes:
        concurrency: running agents at once, 1 to 64.
        cost_usd: dollars over all attempts; None is no limit.
    """

    __pydantic_config__ = STORED

    concurrency: int = 16
    task_ms: int = 1_200_000
    job_ms: int = 5_400_000
    repairs: int = 2
    max_turns: int = 60
    max_tool_calls: int = 400
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Settings of a run.

    Attributes:
        models: `default` or a definition's name to its model.
        setup: None detects, False disables, text is a shell script run in each writer's worktree.
        pass_env: names of environment variables that checks and agents' shells may see.
    """

    __pydantic_config__ = STORED

    models: Mapping[str, ModelChoice] = field(default_factory=lambda: MappingProxyType({}))
    fallbacks: Mapping[str, tuple[ModelChoice, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    limits: Limits = field(default_factory=Limits)
    mode: Mode = Mode.LEAN
    backend: Backend = Backend.IN_PROCESS
    codemode: bool = True
    setup: str | bool | None = None
    include_uncommitted: bool = True
    web_extension: str | None = None
    pass_env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A whole request, every rule that needs no repository already checked.

    Attributes:
        tasks: in input order; the order that ties are broken by.
        notices: sentences for the caller about what was accepted with a doubt.
    """

    __pydantic_config__ = STORED

    tasks: tuple[TaskSpec, ...]
    approval: str | None = None
    instructions: tuple[str, ...] = ()
    config: RunConfig = field(default_factory=RunConfig)
    integrated_checks: tuple[CheckSpec, ...] = ()
    no_integrated_checks_reason: str | None = None
    background: bool = False
    survive: bool = False
    cwd: str | None = None
    notices: tuple[str, ...] = ()

    @property
    def has_writers(self) -> bool:
        """Whether any task may change files."""
        return any(task.kind is Kind.WRITER for task in self.tasks)

    def task(self, wanted: TaskId) -> TaskSpec:
        """Return the task with the id `wanted`, which must be one of this run's."""
        return next(task for task in self.tasks if task.id == wanted)
