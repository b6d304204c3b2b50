"""Looks whether pinata can work where it is asked to."""

import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from agents.models.catalog import read_catalog
from agents.models.keys import describe_keys
from agents.pi_program import PiProgram, find_pi, has_coordinator, missing_helpers
from engine.core.errors import PinataError
from engine.system import files, locks
from pinata import app
from pinata.faces import text
from pinata.faces.command import Command, here, show
from pinata.work.context import Context
from pinata.work.observer import Silence
from pinata.work.places import Places
from worktrees.contents import notes_about
from worktrees.discovery import discover
from worktrees.examination import examine as examine_checkout
from worktrees.hygiene import Repository

_NO_KEY = "no provider has a key: set ANTHROPIC_API_KEY or OPENAI_API_KEY, for example"


async def _doctor(given: Namespace, environment: Mapping[str, str]) -> int:
    answer = await examine(app.build_context(environment, here(), Silence()))
    show(given, answer, text.doctor_lines)
    return 0 if answer["ok"] else 1


async def examine(context: Context) -> dict[str, Any]:
    """Return what was found: `findings` of `what`, `ok` and `says`, and whether all are well."""
    findings = [_finding("Python", sys.version.split()[0])]
    try:
        repository = await discover(context.cwd, context.environment)
    except PinataError as error:
        findings.append(_finding("repository", error))
    else:
        findings.append(_finding("repository", str(repository.root)))
        findings.extend(await _writers(repository))
        findings.extend(await _places(context, repository))
    findings.extend(await trio.to_thread.run_sync(_models, context.environment))
    findings.append(await _pi(context))
    return {"ok": all(finding["ok"] for finding in findings), "findings": findings}


async def _writers(repository: Repository) -> list[dict[str, Any]]:
    try:
        found = await examine_checkout(repository)
        noted = await notes_about(repository, Path(tempfile.gettempdir()))
    except PinataError as error:
        return [_finding("builders", error)]
    ready = _finding("builders", "can start from this checkout")
    return [ready, *(_finding("notice", each) for each in (*found.notices, *noted))]


async def _places(context: Context, repository: Repository) -> list[dict[str, Any]]:
    try:
        places = Places.of(repository, context.environment)
        await trio.to_thread.run_sync(files.make_private_dir, places.locks)
        lock = places.locks / "doctor.lock"
        async with locks.hold(lock, what="doctor", holder=context.holder):
            records = _finding("records", f"{places.runs} can be written and locked")
    except PinataError as error:
        return [_finding("records", error)]
    return [records, await trio.to_thread.run_sync(_worktrees, places.state)]


def _models(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    try:
        lines = describe_keys(read_catalog(environment), environment)
    except PinataError as error:
        return [_finding("models", error)]
    return [_finding("models", line) for line in lines or (_NO_KEY,)]


async def _pi(context: Context) -> dict[str, Any]:
    """Tell about Pi; nobody needs one, but one that cannot work is not well."""
    search = context.environment.get("PATH", "")
    if await trio.to_thread.run_sync(lambda: shutil.which("pi", path=search)) is None:
        return _finding("Pi", "there is none; pinata works without")
    try:
        pi = await find_pi(context.environment, context.cwd)
    except PinataError as error:
        return _finding("Pi", error)
    return _finding("Pi", await trio.to_thread.run_sync(_about_pi, pi, context))


def _about_pi(pi: PiProgram, context: Context) -> str:
    parts = [f"{pi.version} on Node {pi.node_version}"]
    loads = context.agent_dir is not None and has_coordinator(context.agent_dir)
    parts.append("its sessions have the tools" if loads else "`pinata install pi` adds the tools")
    missing = missing_helpers(context.environment, context.agent_dir)
    if missing:
        tools, programs = (" and ".join(each) for each in (missing, missing.values()))
        parts.append(f"agents that run in it have no {tools} without {programs} on PATH")
    return "; ".join(parts)


def _worktrees(state: Path) -> dict[str, Any]:
    try:
        files.make_private_dir(state)
    except (OSError, PinataError) as error:
        return _finding("worktrees", error)
    return _finding("worktrees", f"{state} can be written")


def _finding(what: str, says: str | Exception) -> dict[str, Any]:
    return {"what": what, "ok": not isinstance(says, Exception), "says": str(says)}


COMMANDS: Mapping[str, Command] = {"doctor": _doctor}
