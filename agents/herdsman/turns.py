"""How a managed agent of this process works: answer after answer, until it comes to rest."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from agents.asking import Asker, Question
from agents.budget import BudgetKind
from agents.calls import Hands, OwnTool
from agents.compaction import (
    CONVERSATION_SYSTEM,
    Room,
    conversation_request,
    divide,
    divide_unknown,
    find_cut,
)
from agents.filetools.tool import ToolAnswer
from agents.herdsman.inbox import Inbox
from agents.herdsman.recent_output import RecentOutput
from agents.herdsman.record import ContextUsage
from agents.herdsman.runtime import (
    GUIDANCE,
    Attendant,
    CompactionReason,
    HerdTool,
    Message,
    ToolReply,
)
from agents.herdsman.saved_talk import SavedTalk
from agents.models.port import (
    AnswerFailed,
    AssistantMessage,
    Model,
    StopReason,
    ToolCall,
    Trouble,
    Usage,
)
from engine.core.events import ModelThrottled, TextDelta, ToolStarted, ToolUpdated, Trace

_ABORTED: Final = "the call was stopped because you were interrupted"
_CUT_OFF: Final = Message(
    GUIDANCE,
    "Your answer was cut off because it grew too long, and nothing of it was carried out that was"
    " not complete. Go on in smaller steps.",
    {"why": "length"},
)
_log = logging.getLogger(f"pinata.{__name__}")


@dataclass(slots=True)
class Watch:
    """Follows an agent at work: what of it can be seen, and that it gets on.

    Attributes:
        pieces: what has come of the answer under way; None while there is none.
    """

    attendant: Attendant
    output: RecentOutput
    pieces: list[str] | None = None

    def note(self, trace: Trace) -> None:
        """Follow what happens; neither blocks nor fails."""
        if isinstance(trace, TextDelta):
            if self.pieces is None:
                self.pieces = []
            self.pieces.append(trace.text)
            self.output.piece(trace.text)
        elif isinstance(trace, ToolStarted):
            self.output.block(f"{trace.tool} {trace.summary}".rstrip())
        # What a tool writes while it works shows only that the tool works, and a provider that has
        # enough does not let the agent get on.
        if not isinstance(trace, ToolUpdated | ModelThrottled):
            self.attendant.active()


@dataclass(slots=True)
class HerdCalls:
    """The herd's tools as the agent's hands carry them out.

    Attributes:
        is_alone: whether the call under way is the only one of its answer.
        replies: what the calls of the present answer were answered, by their ids.
    """

    tools: Sequence[HerdTool]
    is_alone: bool = False
    replies: dict[str, ToolReply] = field(default_factory=dict)

    def own(self) -> dict[str, OwnTool]:
        """Return how each tool is called, by its name."""
        return {tool.declaration.name: self._bound(tool) for tool in self.tools}

    def _bound(self, tool: HerdTool) -> OwnTool:
        async def call(call: ToolCall) -> ToolAnswer:
            if call.fault is not None:
                return ToolAnswer(f"{call.name}: {call.fault}", is_error=True)
            try:
                reply = await tool.call(call.arguments, self.is_alone)
            except Exception:  # noqa: BLE001 - a tool call's boundary: a bug in a tool must not end the agent
                _log.exception("tool %s broke", call.name)
                return ToolAnswer(f"{call.name} broke down; try another way", is_error=True)
            self.replies[call.id] = reply
            return ToolAnswer(reply.text, reply.is_error)

        return call


@dataclass(slots=True)
class Turns:
    """Leads one agent; owned by the one task that does.

    Attributes:
        cuts: how many answers in a row ran into their limit of length and called nothing.
    """

    talk: SavedTalk
    inbox: Inbox
    model: Model
    asker: Asker
    hands: Hands
    herd: HerdCalls
    watch: Watch
    cuts: int = 0

    @property
    def usage(self) -> ContextUsage:
        """How full the context is."""
        tokens, window = self.talk.tokens, self.model.context_tokens
        percent = None if window is None else 100 * tokens / window
        return ContextUsage(tokens, window, percent)

    async def work(self) -> str | None:
        """Answer until there is nothing left to answer; return what the provider failed with.

        Raises:
            ExternalError: the conversation cannot be saved.
        """
        fault: str | None = None
        goes_on = False
        while True:
            await self.inbox.deliver()
            if not (self.inbox.take_news() or goes_on):
                return fault
            self.watch.attendant.active()
            answer = await self._next_answer()
            self.watch.pieces = None
            if isinstance(answer, AnswerFailed):
                # What came of it does not count, and neither does what was said before it.
                self.watch.attendant.answered("", was_aborted=False)
                fault, goes_on = answer.message, False
                continue
            fault = None
            goes_on = await self._carry_out(answer.calls)
            self.watch.attendant.active()
            if goes_on or self.inbox:
                continue
            # What comes of it shows at the next request, if there is one.
            await self._shorten()
            if self.cuts == 1:
                self.inbox.leave(_CUT_OFF)

    async def tidy(self) -> None:
        """Leave the conversation whole after `work` was cancelled, or was not begun.

        Raises:
            ExternalError: the conversation cannot be saved.
        """
        await self.inbox.settle()
        pieces, self.watch.pieces = self.watch.pieces, None
        self.cuts = 0
        self.watch.output.end_line()
        if pieces is not None:
            text = "".join(pieces)
            self.watch.attendant.answered(text, was_aborted=True)
            message = AssistantMessage(text)
            await self.talk.mishear(message, StopReason.ABORTED, "interrupted", Usage())
        await self.talk.close_calls(_ABORTED)

    async def _next_answer(self) -> AssistantMessage | AnswerFailed:
        """Return the next answer, the conversation shortened before it where it must be."""
        failure = await self._shorten()
        # A guess may be wrong: what cannot be shortened is sent as it is.
        if failure is not None and failure.trouble is not Trouble.CONTEXT_LENGTH:
            return failure
        answer = await self._ask()
        if not _is_too_long(answer):
            return answer
        if await self._may(CompactionReason.OVERFLOW):
            context = self.model.context_tokens
            room = divide_unknown(self.talk.tokens) if context is None else divide(context)
            failure = await self._compact(room)
            if failure is not None:
                return failure
            answer = await self._ask()
        return self._full() if _is_too_long(answer) else answer

    async def _shorten(self) -> AnswerFailed | None:
        """Shorten a conversation that is about to outgrow the model; return why that failed."""
        context = self.model.context_tokens
        if context is None or self.talk.tokens <= divide(context).fill:
            return None
        if not await self._may(CompactionReason.THRESHOLD):
            return None
        return await self._compact(divide(context))

    async def _may(self, reason: CompactionReason) -> bool:
        return await self.watch.attendant.may_compact(reason)

    async def _ask(self) -> AssistantMessage | AnswerFailed:
        leading = self.talk.leading
        taken = frozenset(self.talk.history.call_ids)
        question = Question(leading.system, self.talk.messages, leading.tools, taken)
        self.watch.pieces = []
        message, end = await self.asker.ask(question, self._keep_broken)
        self.watch.output.end_line()
        if isinstance(end, AnswerFailed):
            return end
        await self.talk.hear(message, end.stop_reason, end.usage)
        is_cut = end.stop_reason is StopReason.LENGTH and not message.calls
        self.cuts = self.cuts + 1 if is_cut else 0
        self.watch.pieces = None
        self.watch.attendant.answered(message.text, was_aborted=False)
        self.watch.attendant.active()
        return message

    async def _keep_broken(self, message: AssistantMessage, end: AnswerFailed) -> None:
        self.watch.output.end_line()
        if self.watch.pieces is not None:
            self.watch.pieces = []
        self.watch.attendant.active()
        await self.talk.mishear(message, StopReason.ERROR, end.message, end.usage)

    async def _compact(self, room: Room) -> AnswerFailed | None:
        """Have the older part of the conversation summarised; return why that failed, if it did."""
        cut = find_cut(self.talk.messages, room.kept)
        if cut is None:
            return self._full()
        request = conversation_request(self.talk.messages[:cut], room)
        self.watch.pieces = None
        question = Question(CONVERSATION_SYSTEM, (request,), is_aside=True)
        message, end = await self.asker.ask(question, self._keep_broken)
        if isinstance(end, AnswerFailed):
            return end
        if not message.text.strip():
            return self._full()
        self.watch.attendant.active()
        await self.talk.compact(cut, message.text.strip(), end.usage)
        return None

    async def _carry_out(self, calls: Sequence[ToolCall]) -> bool:
        """Carry calls out in their order; return whether the agent is to be asked on."""
        self.herd.replies.clear()
        for call in calls:
            self.herd.is_alone = len(calls) == 1
            answer = await self.hands.carry_out(call)
            # The budget of an agent of the herd has no end.
            assert not isinstance(answer, BudgetKind)
            self.watch.output.block(answer.text)
            reply = self.herd.replies.get(call.id)
            await self.talk.answer(call, answer, None if reply is None else reply.details)
        replies = [self.herd.replies.get(call.id) for call in calls]
        return any(reply is None or not reply.ends_turn for reply in replies)

    def _full(self) -> AnswerFailed:
        context = self.model.context_tokens
        size = "" if context is None else f" of {context:,} tokens"
        return AnswerFailed(
            Trouble.CONTEXT_LENGTH,
            f"the model's context{size} is full and the conversation cannot be shortened further:"
            " delegate the rest to a fresh agent, or choose a model with a larger context",
        )


def _is_too_long(answer: AssistantMessage | AnswerFailed) -> bool:
    return isinstance(answer, AnswerFailed) and answer.trouble is Trouble.CONTEXT_LENGTH
