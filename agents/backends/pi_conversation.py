"""One conversation of an agent that is a Pi, followed record by record until it has ended."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

import trio

from agents.backends.attempt import AttemptSpec
from agents.backends.pi_records import (
    Answered,
    Asked,
    CallBegan,
    CallEnded,
    Compacted,
    DialogOpened,
    ExtensionFailed,
    Heard,
    Replied,
    Retrying,
    Said,
    Settled,
    TurnBegan,
)
from agents.backends.pi_secrets import secret_refusal
from agents.backends.pi_stream import PiStream
from agents.budget import Budget, BudgetKind, Spent
from agents.guard import Guard
from agents.intake import Intake
from agents.loop import (
    REMINDER,
    AgentLost,
    AgentOutcome,
    BudgetExceeded,
    NoResult,
    ProviderFailed,
    Submitted,
)
from agents.models.port import ToolCall, Trouble
from agents.steering import Steers
from agents.tidy import summarize_call
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
from engine.core.quote import one_line
from engine.system.nursery import open_flat_nursery

# Longer than the first start of a Pi takes on a busy machine; a hung one is told by it.
READY_S: Final = 60.0
# How long a child whose result was accepted may take to settle; it is ended then.
SETTLE_S: Final = 5.0
_MOST_SAID = 300
_HELLO, _BRIEF = "hello", "brief"


@dataclass(frozen=True, slots=True)
class PiMeans:
    """What an attempt's conversations are led with; see `agents.loop.AgentMeans`."""

    budget: Budget
    steers: Steers
    note: Callable[[Trace], None]


class PiConversation:
    """A conversation and its state; owned by the one task that leads it."""

    def __init__(
        self, attempt: AttemptSpec, guard: Guard, means: PiMeans, stream: PiStream
    ) -> None:
        """Begin with a child that was just started.

        Args:
            attempt: the agent's.
            guard: what its calls must pass.
            means: what it is led with.
            stream: to the child.
        """
        self._attempt = attempt
        self._guard = guard
        self._means = means
        self._stream = stream
        self._intake = Intake(attempt.rules, means.budget, means.steers)
        self._reminded = False
        self._fault: str | None = None
        self._outcome: AgentOutcome | None = None
        self._ready, self._has_result = trio.Event(), trio.Event()

    async def lead(self, brief: str) -> AgentOutcome | None:
        """Return how the conversation ended; None when the child ended without a word.

        Raises:
            PiProtocolError: the child says what no Pi says.
            ExternalError: the delivery of a message cannot be recorded.
        """
        async with open_flat_nursery() as nursery:
            nursery.start_soon(self._watch_start, nursery.cancel_scope)
            nursery.start_soon(self._watch_end, nursery.cancel_scope)
            nursery.start_soon(self._pass_on_messages)
            await self._stream.send({"id": _HELLO, "type": "get_state"})
            while self._outcome is None and (heard := await self._stream.receive()) is not None:
                await self._take(heard, brief)
            nursery.cancel_scope.cancel()
        return self._outcome or self._accepted()

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
        while True:
            await self._means.steers.wait_posted()
            for steer in await self._means.steers.take(follow_ups=False):
                await self._prompt(steer.text, streamingBehavior="steer")

    async def _prompt(self, text: str, **options: str) -> None:
        await self._stream.send({"type": "prompt", "message": text, **options})

    async def _take(self, heard: Heard, brief: str) -> None:
        match heard:
            case Replied(id=id_, fault=fault):
                await self._reply(id_, fault, brief)
            case TurnBegan() | Said() | Answered() | Retrying() | Compacted():
                self._follow_model(heard)
            case CallBegan() | CallEnded():
                self._follow_call(heard)
            case Asked(id=id_, question=question):
                await self._answer(id_, await self._reply_to(question))
            case DialogOpened(id=id_):
                # Nobody sits before it; some extension of the user's has opened it.
                reply = {"type": "extension_ui_response", "id": id_, "cancelled": True}
                await self._stream.send(reply)
            case Settled():
                self._settle()
            case ExtensionFailed(fault=fault):
                self._fault = self._fault or f"an extension failed: {one_line(fault, _MOST_SAID)}"
            case _:
                assert_never(heard)

    async def _reply(self, id_: str, fault: str | None, brief: str) -> None:
        if id_ == _HELLO:
            self._ready.set()
            await self._prompt(brief, id=_BRIEF)
        elif fault is not None and id_ == _BRIEF:
            self._end(AgentLost(f"Pi took no brief: {one_line(fault, _MOST_SAID)}", self._spent))

    def _follow_model(self, heard: TurnBegan | Said | Answered | Retrying | Compacted) -> None:
        attempt, note, budget = self._attempt.attempt, self._means.note, self._means.budget
        match heard:
            case TurnBegan():
                self._check(budget.begin_turn())
                note(TurnStarted(attempt, budget.spent.turns))
            case Said(text=text, is_thought=is_thought):
                note(ThinkingDelta(attempt, text) if is_thought else TextDelta(attempt, text))
            case Answered(stop_reason=reason, usage=usage, fault=fault):
                self._fault = fault
                budget.spend(usage)
                note(MessageEnded(attempt, reason.value))
                self._report_usage()
                self._check(budget.tripped())
            case Retrying(delay_s=delay_s):
                note(ModelThrottled(attempt, delay_s))
            case Compacted(tokens_before=tokens, usage=usage):
                budget.spend(usage)
                note(ContextCompacted(attempt, tokens))
                self._report_usage()
            case _:
                assert_never(heard)

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

    async def _answer(self, id_: str, reply: Mapping[str, str]) -> None:
        value = json.dumps(reply)
        await self._stream.send({"type": "extension_ui_response", "id": id_, "value": value})

    async def _reply_to(self, question: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what our extension in the child is told; `refusal` forbids what it asks about."""
        arguments = question.get("arguments")
        match question.get("ask"):
            case "call":
                return await self._judge_call(str(question.get("tool")), arguments)
            case "submit":
                if self._intake.accepted is not None:
                    return {"refusal": "your result was accepted, and with it your work is done"}
                answer = self._intake.judge(arguments)
                if not answer.is_error:
                    self._has_result.set()
                return {"refusal" if answer.is_error else "text": answer.text}
            case "settle":
                return await self._more(str(question.get("outcome")))
            case other:
                return {"refusal": f"nobody knows how to answer {other!r}"}

    async def _judge_call(self, tool: str, arguments: object) -> Mapping[str, str]:
        if self._intake.accepted is not None:
            return {"refusal": "not carried out: your result was accepted"}
        refusal = await trio.to_thread.run_sync(self._refusal, tool, arguments)
        return {} if refusal is None else {"refusal": refusal}

    def _refusal(self, tool: str, arguments: object) -> str | None:
        refusal = self._guard.check(tool, arguments)
        if refusal is not None:
            return refusal.message
        return secret_refusal(tool, arguments, self._attempt.context)

    async def _more(self, outcome: str) -> Mapping[str, str]:
        """Return a reason to go on for a child that would stop now, if there is one left."""
        if self._intake.accepted is not None or outcome != "completed":
            return {}
        if not self._means.budget.has_turn:
            return {}
        due = await self._means.steers.take(follow_ups=True)
        if due:
            return {"more": "\n\n".join(steer.text for steer in due)}
        if self._reminded:
            return {}
        self._reminded = True
        return {"more": REMINDER}

    def _check(self, tripped: BudgetKind | None) -> None:
        if tripped is not None:
            message = self._means.budget.describe(tripped)
            self._end(BudgetExceeded(tripped, message, self._spent))

    def _settle(self) -> None:
        accepted = self._accepted()
        if accepted is not None:
            self._end(accepted)
        elif self._fault is not None:
            self._end(ProviderFailed(Trouble.OTHER, self._fault, self._spent))
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
