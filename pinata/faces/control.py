"""The commands that reach into a run that another process carries."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace

from engine.core.events import Sender
from pinata import app
from pinata.faces.command import Command, here, show
from pinata.tools.registry import Answer
from pinata.work.context import Context
from pinata.work.observer import Silence


async def _steer(given: Namespace, environment: Mapping[str, str]) -> int:
    way = "followUp" if given.follow_up else "steer"
    request = {"run": given.run, "task": given.task, "message": given.message, "as": way}
    show(given, await app.call_tool(_by_hand(environment), "pinata_steer", request), _steered)
    return 0


async def _cancel(given: Namespace, environment: Mapping[str, str]) -> int:
    request = {"run": given.run} if given.task is None else {"run": given.run, "task": given.task}
    show(given, await app.call_tool(_by_hand(environment), "pinata_cancel", request), _cancelled)
    return 0


def _by_hand(environment: Mapping[str, str]) -> Context:
    """Return the surroundings of a person, whose words are recorded as the user's."""
    return replace(app.build_context(environment, here(), Silence()), sender=Sender.USER)


def _steered(answer: Answer) -> list[str]:
    when = {"steer": "after its current turn", "followUp": "once it would otherwise stop"}
    return [f"the agent of {answer['task']} reads it {when[answer['delivered']]}"]


def _cancelled(answer: Answer) -> list[str]:
    what = f"task {answer['task']}" if "task" in answer else f"run {answer['run']}"
    if "cancelled" in answer:
        return [f"{what} is cancelled"]
    return [f"{what} is being cancelled; to see how it stands: pinata status {answer['run']}"]


COMMANDS: Mapping[str, Command] = {"steer": _steer, "cancel": _cancel}
