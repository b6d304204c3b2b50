"""The tool by which a managed agent asks its owner, and then waits for the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import trio
from pydantic import Field, TypeAdapter

from agents.herdsman.attachments import Prepared, Sender, prepare_message
from agents.herdsman.duty import TROUBLES, Duty, GoneError
from agents.herdsman.errors import HerdError, broken, busy, invalid
from agents.herdsman.identity import AskId
from agents.herdsman.record import Ask, Binding, Contents, State
from agents.herdsman.record_form import ASK, UnreadableRecordError
from agents.herdsman.runtime import HerdTool, ToolReply
from agents.herdsman.settlement import Undelivered, why_not_ask
from agents.herdsman.tool_names import ASK_OWNER
from agents.models.port import ToolDeclaration
from agents.schema import describe
from engine.core.errors import UsageError
from engine.records.request import Request, decode

_DESCRIPTION: Final = (
    "Ask the session that gave you this assignment, when you cannot go on without its answer. "
    "Your turn ends with the call, so call it alone; the answer comes as the next message. Put "
    "everything that is needed to answer into the question, and name files that show it."
)


class AskRequest(Request):
    """What is asked."""

    question: Annotated[str, Field(min_length=1, pattern=r"\S", description="text, not blank")]
    files: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        Field(description="paths of files that go with the question, from the working directory"),
    ] = Field(default_factory=list)


_REQUEST: TypeAdapter[AskRequest] = TypeAdapter(AskRequest)


def ask_tool(duty: Callable[[], Duty | None]) -> HerdTool:
    """Return the tool.

    Args:
        duty: returns the work of the agent that calls it; None before that has begun.
    """

    async def call(arguments: Mapping[str, Any], is_only: bool) -> ToolReply:  # noqa: FBT001 - the port's
        try:
            return await _ask(duty(), arguments, is_only=is_only)
        except HerdError as error:
            return _refusal(error)
        except GoneError:
            return _refusal(busy("the assignment was closed by its owner"))
        except TROUBLES as error:
            return _refusal(broken(f"the question could not be left for the owner: {error}"))

    return HerdTool(ToolDeclaration(ASK_OWNER, _DESCRIPTION, describe(AskRequest)), call)


async def _ask(duty: Duty | None, arguments: Mapping[str, Any], *, is_only: bool) -> ToolReply:
    """Leave a question for the owner.

    Raises:
        HerdError: the question was not left.
        GoneError: the mailbox is not this generation's any more.
        PinataError, OSError: the mailbox cannot be read or written.
    """
    if not is_only:
        raise invalid(
            "ask_owner ends your turn, so no other call may stand beside it",
            next_action="call it again, alone",
        )
    try:
        request = decode(_REQUEST, dict(arguments))
    except UsageError as error:
        raise invalid(str(error)) from error
    if duty is None:
        raise busy("there is no assignment to ask about")
    draft = await _draft(duty)
    prepared = await _prepare(duty, draft, request.question, request.files)
    # Whoever asks has read what it was told, though that may not be noted yet.
    await duty.recorded.wait()
    undelivered = await duty.undelivered()
    async with duty.own_state():
        contents = await duty.mailbox.read()
        assert contents is not None
        _check(contents, duty, undelivered)
        assert contents.state.active is not None
        ask = replace(
            draft,
            request=contents.state.active,
            question=prepared.text,
            bindings=prepared.bindings,
        )
        await _leave(duty, contents.state, ask)
    return ToolReply(
        "Your owner has the question. Your turn ends here; the answer comes as the next message.",
        ends_turn=True,
        details={"askId": ask.ask, "assignmentRequestId": ask.request},
    )


async def _draft(duty: Duty) -> Ask:
    """Return the record without its text.

    Raises:
        HerdError: AGENT_BUSY: there is no assignment.
    """
    state = await duty.mailbox.read_state()
    if state is None or state.active is None:
        raise busy("there is no assignment to ask about")
    return Ask(
        of=state.of,
        ask=AskId(duty.given.premises.new_id()),
        request=state.active,
        session=state.session,
        question="",
        created_ms=duty.now_ms(),
    )


async def _prepare(duty: Duty, draft: Ask, question: str, files: Sequence[str]) -> Prepared:
    """Return the text with its files; see `prepare_message`."""

    def measure(text: str, bindings: tuple[Binding, ...]) -> int:
        return len(ASK.encode(replace(draft, question=text, bindings=bindings)))

    sender = Sender(duty.given.premises, duty.identity.cwd, duty.conversation.entries)
    config = await duty.given.config()
    return await prepare_message(
        sender, heading="Question", text=question, files=files, config=config, measure=measure
    )


def _check(contents: Contents, duty: Duty, undelivered: Undelivered) -> None:
    """Check that the agent may ask now.

    Raises:
        HerdError: AGENT_BUSY, naming what comes first.
    """
    reason = why_not_ask(contents.state, undelivered)
    if duty.is_publishing:
        reason = "the result of the assignment is being written"
    elif reason is None and contents.has_pending_request:
        reason = "your owner has just sent something, which you will read next"
    if reason is not None:
        raise busy(f"you cannot ask now: {reason}", next_action="go on, and ask later if need be")


async def _leave(duty: Duty, state: State, ask: Ask) -> None:
    """Write the question, then the state that waits with it; the mailbox is held.

    Runs to its end even when cancelled. A question without the state is no question.

    Raises:
        PinataError, OSError: nothing was left.
    """
    mailbox = duty.mailbox
    with trio.CancelScope(shield=True):
        await mailbox.write_ask(ask)
        try:
            await duty.save(replace(state, pending_ask=ask.ask, updated_ms=duty.now_ms()))
        except UnreadableRecordError:
            # It may wait with the question.
            raise
        except TROUBLES:
            await mailbox.remove_ask()
            raise


def _refusal(error: HerdError) -> ToolReply:
    trouble = error.told(operation=ASK_OWNER).trouble
    text = f"{trouble.message}; {trouble.next_action}" if trouble.next_action else trouble.message
    return ToolReply(text, is_error=True, details={"ok": False, "error": trouble.as_fields()})
