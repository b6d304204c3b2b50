"""The commands about a run's approved change: hand it over, apply it, prove it, take it back."""

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

import trio

from engine.core.errors import UsageError
from pinata import app
from pinata.faces import text
from pinata.faces.command import Command, here, read_json, show, width
from pinata.faces.interruption import interruptible
from pinata.faces.progress import Progress
from pinata.work.observer import Silence

_INTEGRATE_CODES = {"verified": 0, "applied_unverified": 0}


async def _changes(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    answer = await app.call_tool(context, "pinata_changes", {"run": given.run})
    show(given, answer, text.changes_lines)
    return 0


async def _verify(given: Namespace, environment: Mapping[str, str]) -> int:
    about_evidence = ("expect", "commit", "run_checks")
    if given.evidence is not None:
        for name in ("run", "checks", "no_checks"):
            if getattr(given, name) is not None:
                raise UsageError("--evidence needs no record of a run: leave out what is about one")
        return await _verify_evidence(given, environment)
    if given.run is None or any(getattr(given, name) for name in about_evidence):
        raise UsageError("name a run, or evidence with --evidence")
    arguments: dict[str, Any] = {"run": given.run}
    if given.checks is not None:
        path = here() / given.checks
        arguments["checks"] = await trio.to_thread.run_sync(read_json, path)
    if given.no_checks is not None:
        arguments |= {"checks": arguments.get("checks", []), "noChecksReason": given.no_checks}
    context = app.build_context(environment, here(), Silence())
    call = partial(app.call_tool, context, "pinata_verify", arguments)
    answer = await interruptible(Progress(as_json=False), call)
    show(given, answer, partial(text.verification_lines, width=width()))
    return 0 if (answer["status"], answer["application"]) == ("verified", "exact") else 1


async def _verify_evidence(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    call = partial(
        app.verify_evidence,
        context,
        name=given.evidence,
        expected=given.expect,
        commit=given.commit,
        run_checks=given.run_checks,
    )
    answer = await interruptible(Progress(as_json=False), call)
    show(given, answer, text.evidence_lines)
    is_so = (answer["status"], answer.get("application")) == ("verified", "exact")
    return 0 if is_so else 1


async def _integrate(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    call = partial(app.call_tool, context, "pinata_integrate", {"run": given.run})
    answer = await interruptible(Progress(as_json=False), call)
    show(given, answer, partial(text.integration_lines, width=width()))
    return _INTEGRATE_CODES.get(answer["status"], 1)


async def _rollback(given: Namespace, environment: Mapping[str, str]) -> int:
    if not given.confirm:
        raise UsageError("--confirm is missing: add it, since files will be changed")
    context = app.build_context(environment, here(), Silence())
    arguments = {"run": given.run, "confirm": True}
    call = partial(app.call_tool, context, "pinata_rollback", arguments)
    answer = await interruptible(Progress(as_json=False), call)
    show(given, answer, text.rollback_lines)
    return 0


COMMANDS: Mapping[str, Command] = {
    "changes": _changes,
    "verify": _verify,
    "integrate": _integrate,
    "rollback": _rollback,
}
