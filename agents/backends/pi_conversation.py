"""One conversation of an agent that is a Pi, followed record by record until it has ended.

The child is not trusted: how it ends, what it used and what it handed in is decided here, by what
was heard and asked. An accepted result counts whatever the child does afterwards.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, assert_never

import trio

from agents.backends.attempt import AttemptSpec
from agents.backends.pi_fields import PiProtocolError
from agents.backends.pi_questions import Questions
from agents.backends.pi_records import (
    Answered,
    Asked,
    CallBegan,
    CallEnded,
    Charged,
    Compacted,
    DialogOpened,
    ExtensionFailed,
    Heard,
    Queued,
    Replied,
    Retrying,
    Said,
    Settled,
    TurnBegan,
)
from agents.backends.pi_stream import PiStream
from agents.budget import Budget, BudgetKind, Spent
from agents.guard import Guard
from agents.intake import Intake
from agents.loop import (
    AgentLost,
    AgentOutcome,
    BudgetExceeded,
    NoResult,
    ProviderFailed,
    Submitted,
)
from agents.models.port import ToolCall, Usage
from agents.models.routes import PiRoute
from agents.models.trouble import classify, tidy_message
from agents.steering import Steers
from agents.tidy import summarize_call
from agents.traffic import Traffic
from engine.core.events import (
    ContextCompacted,
    MessageEnded,
    ModelThrottled,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    Trace,
    TurnStarted,
    UsageReported,
)
from engine.system.nursery import open_flat_nursery

# Longer than the first start of a Pi takes on a busy machine; a hung one is told by it.
READY_S: Final = 60.0
# How long a child whose result was accepted may take to settle; it is ended then.
SETTLE_S: Final = 5.0
_HELLO, _BRIEF = "hello", "brief"


@dataclass(frozen=True, slots=True)
class PiMeans:
    """What an attempt's conversations are led with; see `agents.loop.AgentMeans`.

    Attributes:
        route: to the model; it prices answers of which the child says that they cost nothing,
            since a Pi knows no unknown price.
        traffic: learns how the provider bears what Pi asks it.
    """

    budget: Budget
    steers: Steers
    note: Callable[[Trace], None]
    route: PiRoute
    traffic: Traffic

    def tidied(self, text: str) -> str:
        """Return what a child says on one line, without what it shows to its provider."""
        return tidy_message(text, (secret.reveal() for secret in self.route.secrets))


class PiConversation:
    """A conversation and its state; owned by the one task that leads it."""

    def __init__(
        self,
        attempt: AttemptSpec,
        guard: Guard,
        *,
        model: str,
        means: PiMeans,
        stream: PiStream[Heard],
    ) -> None:
        """Begin with a child that was just started.

        Args:
            attempt: the agent's.
            guard: what its calls must pass.
            model: provider and id, with a slash between them, of the model that it must use.
            means: what it is led with.
            stream: to the child.
        """
        self._attempt = attempt
        self._model = model
        self._provider = model.partition("/")[0]
        self._means = means
        self._stream = stream
        self._intake = Intake(attempt.rules, means.budget, means.steers)
        self._questions = Questions(
            attempt, guard, intake=self._intake, budget=means.budget, steers=means.steers
        )
        self._fault: str | None = None
        self._outcome: AgentOutcome | None = None
        self._ready, self._briefed = trio.Event(), trio.Event()
        self._has_result = trio.Event()
        self._retries = self._has_settled = False
        self._sent = 0
        self._queued = 0
        self._unanswered: set[str] = set()

    async def lead(self, brief: str) -> AgentOutcome | None:
        """Return how the conversation ended; None when the child ended without a word.

        Raises:
            PiProtocolError: the child says what no Pi says, or takes in nothing.
            ExternalError: the delivery of a message cannot be recorded.
        """
        try:
            async with open_flat_nursery() as nursery:
                nursery.start_soon(self._watch_start, nursery.cancel_scope)
                nursery.start_soon(self._watch_end, nursery.cancel_scope)
                nursery.start_soon(self._pass_on_messages)
                await self._follow(brief)
                nursery.cancel_scope.cancel()
        except PiProtocolError:
            if self._intake.accepted is None:
                raise
        return self._accepted() or self._outcome

    async def _follow(self, brief: str) -> None:
        await self._stream.send({"id": _HELLO, "type": "get_state"})
        while self._outcome is None and (heard := await self._stream.receive()) is not None:
            await self._take(heard, brief)

    async def _watch_start(self, scope: trio.CancelScope) -> None:
        with trio.move_on_after(READY_S):
            await self._ready.wait()
            return
        self._end(AgentLost(f"Pi was not ready within {READY_S:g} s", self._spent))
        scope.cancel()

    async def _watch_end(self, scope: trio.CancelScope) -> None:
        await self._has_result.wait()
        await trio.sleep(SETTLE_S)
        scope.cancel()

    async def _pass_on_messages(self) -> None:
        """Send each message for the agent as soon as it comes: Pi puts it in after this turn."""
        await self._briefed.wait()
        while True:
            await self._means.steers.wait_posted()
            for steer in await self._means.steers.take(follow_ups=False):
                self._sent += 1
                name = f"message-{self._sent}"
                self._unanswered.add(name)
                self._compare()
                await self._prompt(steer.text, id=name, streamingBehavior="steer")

    async def _prompt(self, text: str, **options: str) -> None:
        await self._stream.send({"type": "prompt", "message": text, **options})

    async def _take(self, heard: Heard, brief: str) -> None:
        match heard:
            case Replied():
                await self._reply(heard, brief)
            case TurnBegan() | Said() | Answered() | Charged() | Retrying() | Compacted():
                self._follow_model(heard)
            case CallBegan() | CallEnded():
                self._follow_call(heard)
            case Queued(count=count):
                self._queued = count
                self._compare()
            case Asked(id=id_, question=question):
                await self._answer(id_, json.dumps(await self._questions.answer(question)))
                if self._intake.accepted is not None:
                    self._has_result.set()
            case DialogOpened(id=id_):
                # Nobody sits before it; some extension of the user's has opened it.
                reply = {"type": "extension_ui_response", "id": id_, "cancelled": True}
                await self._stream.send(reply)
            case Settled():
                self._settle()
            case ExtensionFailed(fault=fault):
                self._fault = self._fault or f"an extension failed: {self._means.tidied(fault)}"
            case _:
                assert_never(heard)

    async def _reply(self, reply: Replied, brief: str) -> None:
        said = self._means.tidied(reply.fault or "")
        if reply.id == _HELLO and not self._ready.is_set():
            self._ready.set()
            if reply.fault is not None:
                self._end(AgentLost(f"Pi is not ready: {said}", self._spent))
            elif reply.model != self._model:
                found = self._means.tidied(reply.model) or "none"
                told = f"Pi should use the model {self._model}, and has taken {found}"
                self._end(AgentLost(told, self._spent))
            else:
                await self._prompt(brief, id=_BRIEF)
        elif reply.id == _BRIEF and reply.fault is not None:
            self._end(AgentLost(f"Pi took no brief: {said}", self._spent))
        elif reply.id == _BRIEF:
            self._briefed.set()
        elif reply.id in self._unanswered:
            self._take_receipt(reply)

    def _take_receipt(self, reply: Replied) -> None:
        """Note that the child has a message, or does not want it."""
        self._unanswered.discard(reply.id)
        self._compare()
        has_settled, self._has_settled = self._has_settled, False
        if has_settled and reply.fault is not None:
            self._settle()

    def _compare(self) -> None:
        """Note whether there are messages that the child's model has not seen."""
        self._intake.is_behind = bool(self._unanswered or self._queued)

    def _follow_model(
        self, heard: TurnBegan | Said | Answered | Charged | Retrying | Compacted
    ) -> None:
        attempt, note = self._attempt.attempt, self._means.note
        match heard:
            case TurnBegan():
                self._begin_turn()
            case Said(text=text, is_thought=is_thought):
                note(ThinkingDelta(attempt, text) if is_thought else TextDelta(attempt, text))
            case Answered(stop_reason=reason, usage=usage, fault=fault):
                self._hear_answer(fault)
                note(MessageEnded(attempt, reason.value))
                self._spend(self._priced(usage))
            case Charged(usage=usage):
                self._spend(usage)
            case Retrying():
                self._retry(heard)
            case Compacted(tokens_before=tokens, usage=usage):
                note(ContextCompacted(attempt, tokens))
                self._spend(self._priced(usage))
            case _:
                assert_never(heard)

    def _begin_turn(self) -> None:
        accepted = self._accepted()
        if accepted is not None:
            self._end(accepted)  # it called something beside, and would go on for nothing
            return
        if self._retries:
            self._retries = False  # the same turn once more
            return
        self._check(self._means.budget.begin_turn())
        self._means.note(TurnStarted(self._attempt.attempt, self._spent.turns))

    def _hear_answer(self, fault: str | None) -> None:
        self._fault = None if fault is None else self._means.tidied(fault)
        if fault is None:
            self._means.traffic.answered(self._provider)

    def _retry(self, heard: Retrying) -> None:
        self._retries = True
        if classify(None, None, heard.fault).is_throttling:
            self._means.traffic.throttled(self._provider, heard.delay_s)
            self._means.note(ModelThrottled(self._attempt.attempt, heard.delay_s))

    def _spend(self, usage: Usage) -> None:
        self._means.budget.spend(usage)
        self._report_usage()
        self._check(self._means.budget.tripped())

    def _priced(self, usage: Usage) -> Usage:
        if usage.cost_usd or not (usage.input_tokens or usage.output_tokens):
            return usage
        return replace(usage, cost_usd=self._means.route.price(usage))

    def _follow_call(self, heard: CallBegan | CallEnded) -> None:
        attempt, note = self._attempt.attempt, self._means.note
        match heard:
            case CallBegan(call=call, tool=tool, arguments=arguments):
                self._check(self._means.budget.begin_call())
                summary = summarize_call(ToolCall(call, tool, arguments))
                note(ToolStarted(attempt, call, tool, summary))
            case CallEnded(call=call, tool=tool, is_error=is_error):
                if is_error:
                    self._means.budget.note_refusal()
                note(ToolEnded(attempt, call, tool, is_error))
                self._report_usage()
            case _:
                assert_never(heard)

    async def _answer(self, id_: str, value: str) -> None:
        await self._stream.send({"type": "extension_ui_response", "id": id_, "value": value})

    def _check(self, tripped: BudgetKind | None) -> None:
        if tripped is not None:
            message = self._means.budget.describe(tripped)
            self._end(BudgetExceeded(tripped, message, self._spent))

    def _settle(self) -> None:
        accepted = self._accepted()
        if accepted is not None:
            self._end(accepted)
        elif not self._briefed.is_set():
            return  # it has not begun
        elif self._unanswered:
            self._has_settled = True  # unless a message that is on its way gets it going again
        elif self._fault is not None:
            trouble = classify(None, None, self._fault)
            self._end(ProviderFailed(trouble, self._fault, self._spent))
        else:
            self._end(NoResult(self._spent, self._intake.refused))

    def _accepted(self) -> Submitted | None:
        """Return the result that was accepted, also when the child died before it settled."""
        if self._intake.accepted is None:
            return None
        return Submitted(self._intake.accepted, self._spent)

    def _end(self, outcome: AgentOutcome) -> None:
        self._outcome = self._outcome or outcome

    @property
    def _spent(self) -> Spent:
        return self._means.budget.spent

    def _report_usage(self) -> None:
        spent = self._spent
        self._means.note(
            UsageReported(
                self._attempt.attempt,
                turns=spent.turns,
                tool_calls=spent.tool_calls,
                input_tokens=spent.usage.input_tokens,
                output_tokens=spent.usage.output_tokens,
                cost_usd=spent.usage.cost_usd,
            )
        )
