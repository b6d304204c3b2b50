"""Builds the real parts and hands them over; the one place that knows how a face reaches a tool."""

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import SystemRandom
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import trio

from agents.herdsman.tool_names import HERD_TOOL_NAMES
from agents.traffic import Traffic
from engine.core.errors import ConflictError, UsageError
from engine.core.limiter import Limiter
from engine.system import family
from engine.system.clock import SystemClock
from pinata.tools.registry import GC, RERUN, RESUME, Answer, Tool
from pinata.work.context import Context
from pinata.work.lookup import outline_runs
from pinata.work.observer import Observer
from worktrees.machine import refusal

if TYPE_CHECKING:  # they take long to load, and most commands come without
    from agents.herdsman.controller import Controller
    from agents.herdsman.runtime import HerdTool

_MODULES: Final = {
    "pinata_run": "pinata.tools.runs",
    "pinata_status": "pinata.tools.status",
    "pinata_steer": "pinata.tools.control",
    "pinata_cancel": "pinata.tools.control",
    "pinata_repair": "pinata.tools.repair",
    "pinata_changes": "pinata.tools.changes",
    "pinata_verify": "pinata.tools.verify",
    "pinata_integrate": "pinata.tools.destination",
    "pinata_rollback": "pinata.tools.destination",
    "pinata_agents": "pinata.tools.agents",
    RESUME: "pinata.tools.runs",
    RERUN: "pinata.tools.rerun",
    GC: "pinata.tools.gc",
}
RUNS: Final = "runs"
_COMMANDS: Final = frozenset({RESUME, RERUN, GC})
TOOL_NAMES: Final = tuple(name for name in _MODULES if name not in _COMMANDS)
# Their runs can be reached from other processes, also where this one ends with them.
_CARRYING: Final = frozenset({"pinata_run", "pinata_repair", RESUME, RERUN})
_AGENT_MARK = "PINATA_AGENT"


def build_context(
    environment: Mapping[str, str],
    cwd: Path,
    observer: Observer,
    *,
    base: Path | None = None,
    project_trust: bool | None = None,
    traffic: Traffic | None = None,
) -> Context:
    """Return the surroundings of a call made from `cwd`; see `Context` for the rest.

    A process that answers several calls makes one `new_traffic` and hands it over with each, or
    has a runtime; see `Context.within`.
    """
    shells = (shutil.which(name, path=environment.get("PATH")) for name in ("bash", "sh"))
    return Context(
        environment=environment,
        shell=next((found for found in shells if found), "/bin/sh"),
        cwd=cwd,
        base=base or cwd,
        clock=SystemClock(),
        holder=f"process {os.getpid()}",
        project_trust=project_trust,
        traffic=traffic or new_traffic(),
        observer=observer,
    )


def new_traffic() -> Traffic:
    """Return what all agents of this process share on their way to models."""
    return Traffic(Limiter(), SystemRandom().random)


def adopt_orphans() -> None:
    """Let what children of this process leave behind come back to it, so that it can be ended.

    Raises:
        ExternalError: the kernel refused.
    """
    family.become_subreaper()


def refuse_agents(environment: Mapping[str, str]) -> None:
    """Refuse a call that would change something on behalf of an agent.

    Raises:
        ConflictError: the environment is an agent's, or a check's.
    """
    if environment.get(_AGENT_MARK) == "1":
        raise ConflictError(
            "this is an agent's or a check's environment (PINATA_AGENT=1): "
            "only the coordinator may change anything"
        )


async def call_tool(context: Context, name: str, arguments: object) -> Answer:
    """Call a tool by name.

    Raises:
        PinataError: the arguments do not fit, the call was refused, or it failed.
    """
    if name not in TOOL_NAMES:
        raise UsageError(f"unknown tool '{name}': the tools are {', '.join(TOOL_NAMES)}")
    return await _call(context, name, arguments)


async def call_for_session(context: Context, name: str, arguments: object) -> Answer:
    """Call a tool, or a command of people that a session passes on for its user, by name.

    Raises:
        PinataError: see `call_tool`.
    """
    if name == RUNS:
        return await outline_runs(context)
    if name in _COMMANDS:
        return await _call(context, name, arguments)
    if name in HERD_TOOL_NAMES:
        herd = await trio.to_thread.run_sync(_herd)
        answer: Answer = await herd.call_herd(context, name, arguments)
        return answer
    return await call_tool(context, name, arguments)


def text_for_model(name: str, answer: Mapping[str, Any]) -> str | None:
    """Return what a model reads of a tool's answer; None where it reads the answer itself."""
    if name not in HERD_TOOL_NAMES:
        return None
    text: str = _herd().text_of(name, answer)
    return text


def tools_of_agents(
    context: Context, controller: Callable[[], "Controller"], allowed: Sequence[str]
) -> Sequence["HerdTool"]:
    """Return the tools by which an agent delegates to the definitions `allowed`.

    Args:
        context: of the agent's host.
        controller: returns the agent as an owner, once it is there.
        allowed: the names of those that it may use.
    """

    def own() -> Context:
        return replace(context, herd=controller())

    tools: Sequence[HerdTool] = _herd().tools_for_agents(own, allowed)
    return tools


def _herd() -> ModuleType:
    """Return the module of the herd's tools; blocks while it is first loaded."""
    return importlib.import_module("pinata.tools.herd")


async def resume_run(context: Context, prefix: str) -> Answer:
    """Finish or close a run whose owner died, and return its summary.

    Raises:
        PinataError: a live process owns it, or it cannot go on.
    """
    return await _call(context, RESUME, {"run": prefix})


async def rerun_run(context: Context, prefix: str) -> Answer:
    """Start again what was lost of a run and all that depends on it, and return its summary.

    Raises:
        PinataError: a live process owns it, nothing was lost, or it cannot go on.
    """
    return await _call(context, RERUN, {"run": prefix})


async def collect_garbage(context: Context, *, confirm: bool, discard: Sequence[str]) -> Answer:
    """Give up what runs left and nobody needs, or tell what that is.

    Args:
        context: the caller's.
        confirm: whether to remove anything.
        discard: runs whose changes may be lost, by their ids or the beginnings of them.

    Raises:
        PinataError: `discard` names no run, or the caller stands in no repository.
    """
    return await _call(context, GC, {"confirm": confirm, "discard": list(discard)})


async def _call(context: Context, name: str, arguments: object) -> Answer:
    tool = await trio.to_thread.run_sync(_load_to_call, name)
    if tool.changes_state:
        refuse_agents(context.environment)
    try:
        if name in _CARRYING and context.links is None:
            from pinata.work.link import open_links  # noqa: PLC0415 - for those that carry runs

            async with open_links() as links:
                return await tool.call(replace(context, links=links), arguments)
        return await tool.call(context, arguments)
    except OSError as error:
        raise refusal(error) from error


def describe_tools() -> list[Answer]:
    """Return the description of every tool that works on runs; blocks."""
    return [_load(name).describe() for name in TOOL_NAMES]


def describe_all_tools() -> list[Answer]:
    """Return the description of these and of every tool of managed agents; blocks."""
    return [*describe_tools(), *(tool.describe() for tool in _herd().TOOLS.values())]


def _load_to_call(name: str) -> Tool[Any]:
    """Return a tool, with all that would take long to load in the middle of the call; blocks."""
    tool = _load(name)
    graphs = sys.modules.get("engine.core.graph")
    if graphs is not None:  # the tool may look at one
        graphs.load_library()
    return tool


def _load(name: str) -> Tool[Any]:
    """Return a tool, or the command that stands beside them; blocks while it is first loaded.

    Only what is asked for is loaded: whoever asks for the status does not wait for the graph
    library and libgit2, which take longer to load than the answer takes.
    """
    tools: Mapping[str, Tool[Any]] = importlib.import_module(_MODULES[name]).TOOLS
    return tools[name]


async def verify_evidence(
    context: Context, *, name: str, expected: str | None, commit: str | None, run_checks: bool
) -> Answer:
    """Hold a commit, or the checkout, against evidence; see `EvidenceSpec` for the arguments.

    Raises:
        PinataError: the evidence or the commit is not here, or is not the expected one.
    """
    refuse_agents(context.environment)
    from pinata.work.evidence_verification import (  # noqa: PLC0415 - loads libgit2 for this command alone
        EvidenceSpec,
        verify_evidence as verify,
    )

    return await verify(context, EvidenceSpec(name, expected, commit, run_checks))
