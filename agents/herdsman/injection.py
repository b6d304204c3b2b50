"""Puts accepted requests into an agent's conversation: each once, whatever dies in between.

Text and id reach the session's file as one entry, so the history tells whether it has happened. A
steer is the exception: nothing remembers it until the agent has read it.
"""

from typing import Final

import trio

from agents.herdsman.duty import RETRY_S, Duty
from agents.herdsman.record import Request, RequestKind
from agents.herdsman.runtime import Message, request_message
from engine.core.errors import ExternalError

_ABORTED: Final = (
    "Your owner has aborted your last operation on purpose. It is still the same assignment; go "
    "on with it like this:\n\n"
)
_ANSWERED: Final = "Your owner answers your question:\n\n"
_PREFACES: Final = {RequestKind.INTERRUPT: _ABORTED, RequestKind.REPLY: _ANSWERED}


def message_of(request: Request) -> Message:
    """Return a request as the agent reads it: it sees the text alone, so that says what it is."""
    text = _PREFACES.get(request.kind, "") + request.text
    return request_message(request.request, request.kind, text)


async def queue_steer(duty: Duty, request: Request) -> None:
    """Have a steer wait for the end of the present answer; it is lost if the agent ends before.

    One that cannot be queued is reported, and not tried again: it may have been taken in.
    """
    duty.unread.add(request.request)
    try:
        await duty.conversation.say(message_of(request), waits=False)
    except ExternalError as error:
        duty.unread.discard(request.request)
        await duty.report("an accepted steer was lost", error)


async def put_in(duty: Duty, request: Request) -> None:
    """Put a task, an answer or a replacement into the conversation; return when it is there.

    What an interrupt aborts is at rest before its replacement is said.
    """
    while True:
        try:
            if await duty.has_read(request.request):
                break
            if request.kind is RequestKind.INTERRUPT:
                await duty.conversation.interrupt()
                duty.interrupted()
            await duty.conversation.say(message_of(request), waits=True)
        except ExternalError as error:
            await duty.report("an accepted request is not in the conversation yet", error)
            await trio.sleep(RETRY_S)
    duty.injected = request.request
    duty.wake()
