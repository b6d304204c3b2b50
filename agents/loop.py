"""An agent's loop: ask the model, carry out its calls, until a result is accepted or cannot be.

How an attempt ends is a value. Only a bug, or a disk that takes no more, raises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import trio

from agents.answer import AnswerCollector
from agents.budget import Budget, BudgetKind, Spent
from agents.filetools.tool import ToolAnswer
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AssistantMessage,
    Message,
    Model,
    StopReason,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    Trouble,
    UserMessage,
)
from agents.session import SessionFile
from agents.submission import (
    SUBMIT_RESULT,
    Submission,
    SubmissionRules,
    check_submission,
    submit_declaration,
)
from agents.tidy import summarize_call, whole_characters
from agents.toolbox import Toolbox
from engine.core.events import (
    MessageEnded,
    ToolEnded,
    ToolStarted,
    Trace,
    TurnStarted,
    UsageReported,
)
from engine.core.ids import AttemptId

RETRY_DELAYS_S = (0.5, 1.0, 2.0)
REMINDER = (
    f"You have not handed in a result. Call `{SUBMIT_RESULT}` now, alone, with what you have. If"
    " the work is not done, say so there."
)
_TOO_LATE = "not carried out: your result was accepted, and with it your work is done"


@dataclass(frozen=True, slots=True)
class Submitted:
    """The agent handed in a result that was accepted."""

    submission: Submission
    spent: Spent


@dataclass(frozen=True, slots=True)
class NoResult:
    """The agent stopped without a result, reminded of it if there was a turn left for that."""

    spent: Spent


@dataclass(frozen=True, slots=True)
class ProviderFailed:
    """The model could not be reached, or not to the end of an answer."""

    trouble: Trouble
    message: str
    spent: Spent


@dataclass(frozen=True, slots=True)
class BudgetExceeded:
    """The agent wanted more than it was given; `message` is a sentence that says of what."""

    which: BudgetKind
    message: str
    spent: Spent


AgentOutcome = Submitted | NoResult | ProviderFailed | BudgetExceeded


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One conversation to be led.

    Attributes:
        system: the system prompt.
        brief: the first message.
        rules: what the result is held against.
    """

    attempt: AttemptId
    system: str
    brief: str
    rules: SubmissionRules


async def run_agent(
    spec: AgentSpec,
    *,
    model: Model,
    toolbox: Toolbox,
    session: SessionFile,
    budget: Budget,
    note: Callable[[Trace], None],
) -> AgentOutcome:
    """Lead the conversation to its end and return how it ended.

    May be called again with the same session and budget, for a conversation that starts afresh.
    Cancelling it drops a running answer or tool call at once; what was said so far is saved.

    Args:
        spec: the conversation.
        model: who answers.
        toolbox: what it may call beside `submit_result`.
        session: where all is written down.
        budget: what is counted, over all conversations of the attempt.
        note: told what happens, in order; must neither block nor fail.

    Raises:
        ExternalError: the conversation cannot be saved.
    """
    declarations = (*toolbox.declarations, submit_declaration(spec.rules.kind))
    first = UserMessage(spec.brief)
    await session.open_conversation(spec.system, declarations, first)
    talk = _Conversation(spec, model, toolbox, session, budget, note)
    return await talk.lead(first, declarations)


@dataclass(slots=True)
class _Conversation:
    """One conversation and its state; owned by the one task that leads it."""

    spec: AgentSpec
    model: Model
    toolbox: Toolbox
    session: SessionFile
    budget: Budget
    note: Callable[[Trace], None]
    messages: list[Message] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    accepted: Submission | None = None

    async def lead(
        self, first: UserMessage, declarations: tuple[ToolDeclaration, ...]
    ) -> AgentOutcome:
        self.messages.append(first)
        reminded = False
        while True:
            tripped = self.budget.begin_turn()
            if tripped is not None:
                return self._exceeded(tripped)
            answer = await self._ask(declarations)
            tripped = self.budget.tripped()
            if tripped is not None:
                return self._exceeded(tripped)
            if isinstance(answer, AnswerFailed):
                return ProviderFailed(answer.trouble, answer.message, self.budget.spent)
            tripped = await self._carry_out(answer.calls)
            if tripped is not None:
                return self._exceeded(tripped)
            if self.accepted is not None:
                return Submitted(self.accepted, self.budget.spent)
            if not answer.calls:
                if reminded or not self.budget.has_turn:
                    return NoResult(self.budget.spent)
                reminded = True
                self.messages.append(UserMessage(REMINDER))
                await self.session.add_user(UserMessage(REMINDER))

    async def _ask(
        self, declarations: tuple[ToolDeclaration, ...]
    ) -> AssistantMessage | AnswerFailed:
        """Return the model's next answer; troubles that may pass are waited out, up to a limit."""
        self.note(TurnStarted(self.spec.attempt, self.budget.spent.turns))
        delays_s = iter(RETRY_DELAYS_S)
        while True:
            message, end = await self._listen(declarations)
            self.budget.spend(end.usage)
            await self._keep(message, end)
            if isinstance(end, AnswerEnded):
                return message
            delay_s = next(delays_s, None)
            if delay_s is None or not end.trouble.may_pass or self.budget.tripped():
                return end
            await trio.sleep(delay_s)

    async def _listen(
        self, declarations: tuple[ToolDeclaration, ...]
    ) -> tuple[AssistantMessage, AnswerEnded | AnswerFailed]:
        """Return what one request brought, bounded and tidied, and how it ended."""
        answer = AnswerCollector(self.spec.attempt, self.note, set(self.call_ids))
        async with self.model.stream(self.spec.system, self.messages, declarations) as pieces:
            async for piece in pieces:
                if answer.add(piece):
                    break
        return answer.message, answer.end

    async def _keep(self, message: AssistantMessage, end: AnswerEnded | AnswerFailed) -> None:
        """Write an answer down, and remember it unless it broke off."""
        if isinstance(end, AnswerEnded):
            self.messages.append(message)
            self.call_ids |= {call.id for call in message.calls}
            reason, error = end.stop_reason, None
        else:
            reason, error = StopReason.ERROR, end.message
        await self.session.add_answer(message, reason, end.usage, error)
        self.note(MessageEnded(self.spec.attempt, reason.value))
        self._report_usage()

    async def _carry_out(self, calls: Sequence[ToolCall]) -> BudgetKind | None:
        """Carry calls out in their order; return what forbids the next one, if anything does."""
        for call in calls:
            if self.accepted is not None:
                await self._answer_call(call, ToolAnswer(_TOO_LATE, is_error=True))
                continue
            tripped = self.budget.begin_call()
            if tripped is not None:
                return tripped
            attempt = self.spec.attempt
            self.note(ToolStarted(attempt, call.id, call.name, summarize_call(call)))
            answer = await self._perform(call)
            self.note(ToolEnded(attempt, call.id, call.name, answer.is_error))
            await self._answer_call(call, answer)
        if calls:
            self._report_usage()
        return None

    async def _perform(self, call: ToolCall) -> ToolAnswer:
        if call.fault is not None:
            return ToolAnswer(f"{call.name}: {call.fault}", is_error=True)
        if call.name != SUBMIT_RESULT:
            return await self.toolbox.call(call.name, call.arguments)
        judged = check_submission(call.arguments, self.spec.rules)
        if isinstance(judged, Submission):
            self.accepted = judged
            return ToolAnswer("accepted")
        faults = "".join(f"\n- {fault}" for fault in judged)
        return ToolAnswer(f"not accepted; mend this and call it again:{faults}", is_error=True)

    async def _answer_call(self, call: ToolCall, answer: ToolAnswer) -> None:
        text = whole_characters(answer.text)
        message = ToolMessage(call.id, call.name, text, answer.is_error)
        self.messages.append(message)
        await self.session.add_tool(message)

    def _report_usage(self) -> None:
        spent = self.budget.spent
        self.note(
            UsageReported(
                self.spec.attempt,
                turns=spent.turns,
                tool_calls=spent.tool_calls,
                input_tokens=spent.usage.input_tokens,
                output_tokens=spent.usage.output_tokens,
                cost_usd=spent.usage.cost_usd,
            )
        )

    def _exceeded(self, which: BudgetKind) -> BudgetExceeded:
        return BudgetExceeded(which, self.budget.describe(which), self.budget.spent)
