"""The commands that change the checkout, and take it back."""

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

from pinata import app
from pinata.faces import text
from pinata.faces.command import Command, here, show
from pinata.faces.interruption import interruptible
from pinata.faces.progress import Progress
from pinata.work.context import Silence

_INTEGRATE_CODES = {"verified": 0, "applied_unverified": 0}


async def _integrate(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    call = partial(app.call_tool, context, "pinata_integrate", {"run": given.run})
    answer = await interruptible(Progress(as_json=False), call)
    show(given, answer, text.integration_lines)
    return _INTEGRATE_CODES.get(answer["status"], 1)


async def _rollback(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    arguments: dict[str, Any] = {"run": given.run} | ({"confirm": True} if given.confirm else {})
    call = partial(app.call_tool, context, "pinata_rollback", arguments)
    answer = await interruptible(Progress(as_json=False), call)
    show(given, answer, text.rollback_lines)
    return 0


COMMANDS: Mapping[str, Command] = {"integrate": _integrate, "rollback": _rollback}
