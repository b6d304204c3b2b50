"""A person's Pi whose model delegates: definitions with scripted models, and what came of them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.herdsman.runtime import QUESTION, RESULT
from tests.support.coordinators import CoordinatorPi, Desk, Record
from tests.support.projects import says

Turn = Mapping[str, Any]


def define_pi(desk: Desk, name: str) -> None:
    """Write a definition of the user's whose agents are a Pi each, with the session's own model."""
    folder = desk.agent_dir / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    front = f"description: Does what {name} does.\nbackend: process\n"
    (folder / f"{name}.md").write_text(f"---\n{front}---\nYou are {name}.\n")


def define(desk: Desk, name: str, script: Mapping[str, list[Turn]], **more: object) -> None:
    """Write a definition of the user's whose agents run in the host and follow a script."""
    define_in(desk.agent_dir, name, script, **more)


def define_in(agent_dir: Path, name: str, script: Mapping[str, list[Turn]], **more: object) -> None:
    """Do the same, given the Pi agent directory."""
    folder = agent_dir / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.script.json"
    path.write_text(json.dumps(script))
    settings = {"description": f"Does what {name} does.", "backend": "in-process", **more}
    settings["model"] = f"scripted/{path}"
    front = "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())
    (folder / f"{name}.md").write_text(f"---\n{front}---\nYou are {name}.\n")


async def call(desk: Desk, pi: CoordinatorPi, tool: str, **arguments: object) -> Any:
    """Have the session's model call a tool, also while it is busy, and return the answer."""
    since = len(pi.records)
    desk.mind.will_say(says(tool, **arguments))
    await pi.ask("prompt", message=f"Call {tool}.", streamingBehavior="followUp")

    def is_answer(record: Record) -> bool:
        return bool(record["type"] == "tool_execution_end" and record["toolName"] == tool)

    text = (await pi.until(is_answer, since))["result"]["content"][0]["text"]
    return json.loads(text) if text.startswith("{") else text


def told(kind: str) -> Callable[[Record], bool]:
    """Return what recognises that a message of the herd entered the conversation."""

    def is_it(record: Record) -> bool:
        message = record.get("message", {})
        return bool(record["type"] == "message_end" and message.get("customType") == kind)

    return is_it


def messages(desk: Desk, kind: str = RESULT) -> list[dict[str, Any]]:
    """Return the messages of the herd that the session's file holds, with `content`, `details`."""
    return [entry for entry in desk.entries() if entry.get("customType") == kind]


def questions(desk: Desk) -> list[dict[str, Any]]:
    """Return the questions that the session's file holds."""
    return messages(desk, QUESTION)


def mailboxes(desk: Desk) -> list[Path]:
    """Return the mailboxes that there are."""
    folder = desk.agent_dir / "pinata" / "runtime" / "mailboxes-v4"
    return sorted(folder.iterdir()) if folder.exists() else []


async def labels(desk: Desk, pi: CoordinatorPi) -> list[str]:
    """Return the labels of the agents that the session sees."""
    listed = await call(desk, pi, "agent_list")
    return [agent["agent"] for agent in listed["agents"]]


async def wait_labels(desk: Desk, pi: CoordinatorPi, *expected: str) -> None:
    """Return when these are the agents that the session sees; they go after their results came."""
    while await labels(desk, pi) != list(expected):
        pass
