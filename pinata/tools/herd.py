"""The tools by which a session delegates to agents that outlive the call, and controls them.

They need a session that can be woken when an agent has ended, so they are offered to Pi sessions
and to agents that may delegate, and to nobody else.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol, TypeVar

from pydantic import BaseModel, Field

from agents.herdsman.closing import close
from agents.herdsman.continuation import continue_
from agents.herdsman.controller import Controller
from agents.herdsman.controls import interrupt, reply, steer
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import HerdError, Trouble, broken, invalid
from agents.herdsman.identity import LABEL_PATTERN
from agents.herdsman.overflow import cut_for_model, keep_overflow
from agents.herdsman.reads import inspect, inspection_text, list_agents, transcript
from agents.herdsman.runtime import HerdTool, ToolReply
from agents.models.port import ToolDeclaration
from engine.core.errors import PinataError, UsageError
from engine.records.fields import NotNull
from engine.records.request import Request
from pinata.tools.registry import Answer, Tool, by_name
from pinata.work.context import Context

NO_SESSION: Final = (
    "agents are managed by a Pi session, which is told when they end: call this tool there"
)
_PREFIX = "agent_"
_Text = Annotated[str, Field(min_length=1, pattern=r"\S", description="text that is not blank")]
_Agent = Annotated[
    str, Field(pattern=LABEL_PATTERN, description="the exact label of an agent that is there")
]
_Files = Annotated[
    list[Annotated[str, Field(min_length=1)]],
    Field(
        description="paths of files, or references such as result:researcher#1, that go with the "
        "text as evidence"
    ),
]


class ListRequest(Request):
    """Nothing: all is told."""


class DelegateRequest(Request):
    """What a new agent is to do."""

    definition: Annotated[
        str, Field(min_length=1, description="the name of a definition that agent_list shows")
    ]
    task: _Text
    label: Annotated[
        str | None,
        NotNull(),
        Field(
            pattern=LABEL_PATTERN,
            description="a name: a lower-case letter, then at most 31 "
            "lower-case letters, digits, hyphens and underscores",
        ),
    ] = None
    files: _Files = Field(default_factory=list)


class ContinueRequest(Request):
    """Which saved session goes on with what."""

    session: Annotated[
        str, Field(min_length=1, description="the exact path or full id of an agent's session")
    ]
    task: _Text
    files: _Files = Field(default_factory=list)


class MessageRequest(Request):
    """Whom to tell what."""

    agent: _Agent
    message: _Text
    files: _Files = Field(default_factory=list)


class AgentRequest(Request):
    """Which agent is meant."""

    agent: _Agent


R = TypeVar("R", bound=BaseModel)


def _answered(
    operation: str, call: Callable[[Controller, R], Awaitable[Mapping[str, Any]]]
) -> Callable[[Context, R], Awaitable[Answer]]:
    """Return a handler that answers with what `call` returns, or with why it did not."""

    async def answer(context: Context, request: R) -> Answer:
        if context.herd is None:
            raise UsageError(NO_SESSION)
        try:
            async with context.herd.turn:
                told = {"ok": True, **await call(context.herd, request)}
            text = text_of(_PREFIX + operation, told)
            return {**told, **await keep_overflow(context.herd.premises, text)}
        except HerdError as error:
            return refusal(operation, error)
        except PinataError as error:
            return refusal(operation, broken(str(error)))

    return answer


def refusal(operation: str, error: HerdError) -> Answer:
    """Return what a tool answers that did not do what was asked."""
    trouble: Trouble = error.trouble
    fields = trouble.as_fields()
    return {"ok": False, "error": {**fields, "operation": trouble.operation or operation}}


_DELEGATE = (
    "Hand a task to a new agent, which works on it by itself; the answer comes as soon as it has"
    " taken the task. Its result arrives later as a message of its own: do not wait, poll or do"
    " the work yourself meanwhile. `definition` is one of those that agent_list shows, `files`"
    " are the only evidence that it gets beside the task: it does not see this conversation."
    " Do not attach AGENTS.md, CLAUDE.md, GEMINI.md or the like, nor a SKILL.md that the"
    " definition brings along, unless the task is about the file."
)
_CONTINUE = (
    "Have the saved session of an agent that has ended go on with another task, as a new agent of"
    " the same label and folder. `session` is the exact path or full id that its result told. Use"
    " agent_delegate for a new conversation; an agent that is there takes no second task."
)
_LIST = (
    "Show the definitions that agent_delegate can use, and the agents that there are: how each"
    " stands, and in `available_tools` what can be done with it now. Go by that and not by the"
    " state. There is no need to poll it: results, questions and trouble are told by messages."
)
_STEER = (
    "Correct an agent at work without stopping it, where agent_list offers this. It reads the"
    " message after its present answer and the calls in it; a call that hangs is not ended by it."
)
_INTERRUPT = (
    "Stop what an agent does at this moment and have it go on with the same task by your message,"
    " where agent_list offers this. What it was told before and has not read is dropped."
)
_REPLY = (
    "Answer the question that an agent has asked with ask_owner, where agent_list offers this; it"
    " goes on with the same task."
)
_CLOSE = (
    "Give up an agent and its task, where agent_list offers this: it is ended at once, and agents"
    " that it started before it. Its saved session and earlier results stay. One that has ended"
    " by itself needs no closing."
)
_INSPECT = (
    "Show the last lines of what an agent's terminal would show, and which programs it has"
    " running, where agent_list offers this. Nothing of the agent changes."
)
_TRANSCRIPT = (
    "Show the end of an agent's saved conversation: texts, tool calls and their answers, where"
    " agent_list offers this. Nothing of the agent changes."
)


def _tool(
    name: str,
    description: str,
    request: type[R],
    call: Callable[[Controller, R], Awaitable[Mapping[str, Any]]],
    *,
    changes_state: bool,
) -> Tool[R]:
    handler = _answered(name.removeprefix(_PREFIX), call)
    return Tool(name, description, request, handler, changes_state)


class _Tells(Protocol):
    async def __call__(
        self, controller: Controller, *, agent: str, message: str, files: Sequence[str]
    ) -> Mapping[str, Any]: ...


class _Concerns(Protocol):
    async def __call__(self, controller: Controller, *, agent: str) -> Mapping[str, Any]: ...


def _telling(name: str, description: str, tell: _Tells) -> Tool[MessageRequest]:
    async def call(controller: Controller, asked: MessageRequest) -> Mapping[str, Any]:
        return await tell(controller, agent=asked.agent, message=asked.message, files=asked.files)

    return _tool(name, description, MessageRequest, call, changes_state=True)


def _concerning(
    name: str, description: str, concern: _Concerns, *, changes_state: bool
) -> Tool[AgentRequest]:
    async def call(controller: Controller, asked: AgentRequest) -> Mapping[str, Any]:
        return await concern(controller, agent=asked.agent)

    return _tool(name, description, AgentRequest, call, changes_state=changes_state)


async def _list(controller: Controller, _: ListRequest) -> Mapping[str, Any]:
    return await list_agents(controller)


async def _delegate(controller: Controller, asked: DelegateRequest) -> Mapping[str, Any]:
    return await delegate(
        controller,
        definition=asked.definition,
        task=asked.task,
        label=asked.label,
        files=asked.files,
    )


async def _continue(controller: Controller, asked: ContinueRequest) -> Mapping[str, Any]:
    return await continue_(controller, session=asked.session, task=asked.task, files=asked.files)


TOOLS = by_name(
    _tool("agent_list", _LIST, ListRequest, _list, changes_state=False),
    _tool("agent_delegate", _DELEGATE, DelegateRequest, _delegate, changes_state=True),
    _tool("agent_continue", _CONTINUE, ContinueRequest, _continue, changes_state=True),
    _telling("agent_steer", _STEER, steer),
    _telling("agent_interrupt", _INTERRUPT, interrupt),
    _telling("agent_reply", _REPLY, reply),
    _concerning("agent_close", _CLOSE, close, changes_state=True),
    _concerning("agent_inspect", _INSPECT, inspect, changes_state=False),
    _concerning("agent_transcript", _TRANSCRIPT, transcript, changes_state=False),
)


async def call_herd(context: Context, name: str, arguments: object) -> Answer:
    """Return what one of these tools answers; arguments that do not fit are a refusal too.

    Raises:
        UsageError: the caller has no session that owns agents.
    """
    if context.herd is None:
        raise UsageError(NO_SESSION)
    try:
        return await TOOLS[name].call(context, arguments)
    except UsageError as error:
        return refusal(name.removeprefix(_PREFIX), invalid(str(error)))


def tools_for_agents(
    context: Callable[[], Context], allowed: Sequence[str]
) -> tuple[HerdTool, ...]:
    """Return these tools for an agent that may delegate to the definitions `allowed` itself.

    Args:
        context: returns what holds the controller of the agent's own session.
        allowed: the names that its schema offers.
    """
    return tuple(_for_agent(context, tool, allowed) for tool in TOOLS.values())


def _for_agent(context: Callable[[], Context], tool: Tool[Any], allowed: Sequence[str]) -> HerdTool:
    described = tool.describe()
    parameters = described["parameters"]
    if "definition" in parameters["properties"]:
        parameters["properties"]["definition"]["enum"] = list(allowed)

    async def call(arguments: Mapping[str, Any], is_alone: bool) -> ToolReply:  # noqa: ARG001, FBT001 - as `HerdTool` has it
        answer = await call_herd(context(), tool.name, dict(arguments))
        return ToolReply(text_of(tool.name, answer), is_error=not answer["ok"], details=answer)

    return HerdTool(ToolDeclaration(tool.name, tool.description, parameters), call)


def text_of(name: str, answer: Mapping[str, Any]) -> str:
    """Return an answer as a model reads it; the answer itself is for programs.

    One that is too long says where the whole is.
    """
    if answer["ok"] and name == "agent_transcript":
        return str(answer["transcript"])
    if answer["ok"] and name == "agent_inspect":
        return inspection_text(answer)
    return cut_for_model(json.dumps(answer, ensure_ascii=False), answer)
