"""The present branch of a saved session, and what of it a model is shown; pure.

Source: Pi's session format, version 3, and how Pi builds a model's context from it. Entries form a
tree, and the last one in the file is where the session goes on. Lines and types that nobody knows
are passed over, and a branch begins where the entry before it is missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from engine.core.spec import Thinking

Line: TypeAlias = Mapping[str, Any]

# How Pi shows summaries, so that a model reads the same whoever continues a session.
_COMPACTED: Final = (
    "The conversation history before this point was compacted into the following summary:\n\n"
    "<summary>\n{}\n</summary>"
)
_CAME_BACK: Final = (
    "The following is a summary of a branch that this conversation came back from:\n\n"
    "<summary>\n{}</summary>"
)
_LEVELS: Final = {level.value: level for level in Thinking}


@dataclass(frozen=True, slots=True)
class Shown:
    """A message that a model is shown.

    Attributes:
        entry: the id of the entry that it stands in.
        message: in Pi's form.
    """

    entry: str
    message: Line


@dataclass(frozen=True, slots=True)
class Lead:
    """What a session is led with at its end.

    Attributes:
        provider, model: of the last model; None where nobody tells.
        thinking: the last level; None where nobody tells.
        sections: the parts of the system prompt, by their names.
        tools: the tools as they were declared, by their names.
    """

    provider: str | None = None
    model: str | None = None
    thinking: Thinking | None = None
    sections: Mapping[str, object] = field(default_factory=dict)
    tools: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Branch:
    """The entries from a session's beginning to its present end, in order."""

    entries: tuple[Line, ...]

    @classmethod
    def of(cls, lines: Sequence[Line]) -> "Branch":
        """Return the present branch of a session with these lines."""
        known = {line["id"]: line for line in lines if is_entry(line)}
        found: list[Line] = []
        at = next((line["id"] for line in reversed(lines) if is_entry(line)), None)
        while isinstance(at, str) and at in known:
            # Taken out, so that a circle ends.
            entry = known.pop(at)
            found.append(entry)
            at = entry.get("parentId")
        return cls(tuple(reversed(found)))

    @property
    def end(self) -> str | None:
        """The id of the last entry; None when there is none."""
        return self.entries[-1]["id"] if self.entries else None

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all entries."""
        return frozenset(entry["id"] for entry in self.entries)

    def shown(self) -> tuple[Shown, ...]:
        """Return the messages that a model is shown, system messages excepted, in order."""
        entries = self._since_compaction()
        edits = {
            str(entry.get("targetId")): entry.get("replacement")
            for entry in entries
            if entry.get("type") == "context_edit"
        }
        found = []
        for entry in entries:
            message = _message(entry)
            if message is None or message.get("role") == "system":
                continue
            if entry["id"] in edits:
                edit = edits[entry["id"]]
                if not isinstance(edit, Mapping):
                    continue
                message = {**message, "content": edit.get("content")}
            found.append(Shown(entry["id"], message))
        return tuple(found)

    def lead(self) -> Lead:
        """Return what the session is led with at its end."""
        told: dict[str, Any] = {}
        sections: dict[str, object] = {}
        tools: dict[str, object] = {}
        for entry in self.entries:
            told |= _settings(entry)
            message = entry.get("message")
            if not isinstance(message, Mapping) or message.get("role") != "system":
                continue
            if isinstance(message.get("sections"), Mapping):
                sections |= message["sections"]
            for tool in _objects(message.get("toolsRemoved")):
                tools.pop(str(tool.get("name")), None)
            tools |= {str(tool.get("name")): tool for tool in _objects(message.get("toolsAdded"))}
        sections = {name: text for name, text in sections.items() if text is not None}
        return Lead(sections=sections, tools=tools, **told)

    def _since_compaction(self) -> tuple[Line, ...]:
        """Return the latest compaction, what it kept, and all that came after; else everything."""
        places = [
            place for place, entry in enumerate(self.entries) if entry.get("type") == "compaction"
        ]
        if not places:
            return self.entries
        at = places[-1]
        compaction = self.entries[at]
        before = self.entries[:at]
        kept = next(
            (
                place
                for place, entry in enumerate(before)
                if entry["id"] == compaction.get("firstKeptEntryId")
            ),
            at,
        )
        # An older summary may lie in what was kept; the newest one speaks for it.
        stays = [entry for entry in before[kept:] if entry.get("type") != "compaction"]
        return (compaction, *stays, *self.entries[at + 1 :])


def is_entry(line: Line) -> bool:
    """Return whether a line is an entry, and not the first one or something unknown."""
    return line.get("type") != "session" and isinstance(line.get("id"), str)


def summary_text(summary: str) -> str:
    """Return how a model reads what stands for everything before an entry."""
    return _COMPACTED.format(summary)


def _message(entry: Line) -> Line | None:
    match entry.get("type"):
        case "message":
            message = entry.get("message")
            return message if isinstance(message, Mapping) else None
        case "custom_message":
            return {"role": "user", "content": entry.get("content")}
        case "compaction":
            return {"role": "user", "content": summary_text(str(entry.get("summary", "")))}
        case "branch_summary" if entry.get("summary"):
            return {"role": "user", "content": _CAME_BACK.format(entry["summary"])}
        case _:
            return None


def _settings(entry: Line) -> dict[str, Any]:
    message = entry.get("message")
    match entry.get("type"):
        case "thinking_level_change":
            return {"thinking": _LEVELS.get(str(entry.get("thinkingLevel")))}
        case "model_change":
            provider, model = entry.get("provider"), entry.get("modelId")
        case "message" if isinstance(message, Mapping) and message.get("role") == "assistant":
            provider, model = message.get("provider"), message.get("model")
        case _:
            return {}
    if isinstance(provider, str) and isinstance(model, str):
        return {"provider": provider, "model": model}
    return {}


def _objects(value: object) -> list[Line]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
