"""An agent's loop: ask the model, carry out its calls, until a result is accepted or cannot be.

How an attempt ends is a value. Only a bug, or a disk that takes no more, raises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agents.asking import Asker, Question
from agents.budget import Budget, BudgetKind, Spent
from agents.calls import Hands
from agents.compaction import (
    SUMMARY_SYSTEM,
    Room,
    divide,
    divide_unknown,
    find_cut,
    summary_request,
)
from agents.filetools.tool import ToolAnswer
from agents.intake import Intake
from agents.models.port import (
    AnswerFailed,
    AssistantMessage,
    Model,
    StopReason,
    ToolCall,
    Trouble,
)
from agents.session import SessionFile
from agents.steering import Steers
from agents.submission import SUBMIT_RESULT, Submission, SubmissionRules, submit_declaration
from agents.talk import Talk
from agents.toolbox import Toolbox
from agents.traffic import Traffic
from engine.core.events import ContextCompacted, MessageEnded, Trace, TurnStarted, UsageReported
from engine.core.ids import AttemptId

REMINDER = (
    f"You have not handed in a result. Call `{SUBMIT_RESULT}` now, alone, with what you have. If"
    " the work is not done, say so there."
)
_TOO_LATE = "not carried out: your result was accepted, and with it your work is done"
_CUT_OFF = (
    "Your answer was cut off because it grew too long, and nothing of it was carried out that was"
    " not complete. Go on in smaller steps."
)


@dataclass(frozen=True, slots=True)
class Submitted:
    """The agent handed in a result that was accepted."""

    submission: Submission
    spent: Spent


@dataclass(frozen=True, slots=True)
class NoResult:
    """The agent stopped without a result, reminded of it if there was a turn left for that.

    Attributes:
        refused: the first fault of the last result that was refused; empty when none was.
    """

    spent: Spent
    refused: str = ""


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


@dataclass(frozen=True, slots=True)
class AgentLost:
    """What runs the agent ended, or broke, before the agent did; `message` says how."""

    message: str
    spent: Spent


AgentOutcome = Submitted | NoResult | ProviderFailed | BudgetExceeded | AgentLost


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


@dataclass(frozen=True, slots=True)
class AgentMeans:
    """What an attempt's conversations are led with.

    Attributes:
        model: who answers.
        traffic: the way to its provider, shared with all agents of the process.
        session: where all is written down.
        budget: what is counted, over all conversations of the attempt.
        steers: the messages that reach the agent while it works.
        note: told what happens, in order; must neither block nor fail.
    """

    model: Model
    traffic: Traffic
    session: SessionFile
    budget: Budget
    steers: Steers
    note: Callable[[Trace], None]


async def run_agent(spec: AgentSpec, toolbox: Toolbox, means: AgentMeans) -> AgentOutcome:
    """Lead the conversation to its end and return how it ended.

    May be called again with the same means, for a conversation that starts afresh. Cancelling it
    drops a running answer or tool call at once; what was said so far is saved.

    Args:
        spec: the conversation.
        toolbox: what the agent may call beside `submit_result`.
        means: what it is led with.

    Raises:
        ExternalError: the conversation cannot be saved, or the delivery of a message recorded.
    """
    tools = (*toolbox.declarations, submit_declaration(spec.rules.kind))
    talk = Talk(means.session, spec.system, tools)
    await talk.open(spec.brief)
    intake = Intake(spec.rules, means.budget, means.steers)
    own = {SUBMIT_RESULT: intake.take}
    hands = Hands(spec.attempt, toolbox, means.budget, means.note, own)
    asker = Asker(spec.attempt, means.model, means.traffic, means.budget, means.note)
    return await _Conversation(spec.attempt, means, talk, intake, hands, asker).lead()


@dataclass(slots=True)
class _Conversation:
    """One conversation and its state; owned by the one task that leads it.

    Attributes:
        reminded: whether the agent was told that its result is missing.
        cuts: how many answers in a row ran into their limit of length and called nothing.
    """

    attempt: AttemptId
    means: AgentMeans
    talk: Talk
    intake: Intake
    hands: Hands
    asker: Asker
    reminded: bool = False
    cuts: int = 0

    async def lead(self) -> AgentOutcome:
        while True:
            outcome = await self._take_turn()
            if outcome is not None:
                return outcome

    async def _take_turn(self) -> AgentOutcome | None:
        """Let the model answer once and do what it asks for; return how it ended, if it did."""
        budget = self.means.budget
        tripped = budget.begin_turn()
        if tripped is not None:
            return self._exceeded(tripped)
        self.intake.held_back = False
        await self._deliver(follow_ups=False)
        answer = await self._next_answer()
        tripped = budget.tripped()
        if tripped is not None:
            return self._exceeded(tripped)
        if isinstance(answer, AnswerFailed):
            return ProviderFailed(answer.trouble, answer.message, budget.spent)
        tripped = await self._carry_out(answer.calls)
        if tripped is not None:
            return self._exceeded(tripped)
        if self.intake.accepted is not None:
            return Submitted(self.intake.accepted, budget.spent)
        return await self._keep_going(answer)

    async def _keep_going(self, answer: AssistantMessage) -> NoResult | None:
        """Give an agent that would stop now a reason to go on, if there is one left."""
        stops = not answer.calls
        if not (stops or self.intake.held_back):
            return None
        if self.means.budget.has_turn and await self._deliver(follow_ups=True):
            return None
        if stops and self.cuts == 1 and self.means.budget.has_turn:
            await self.talk.say(_CUT_OFF)
        elif stops and (self.reminded or not self.means.budget.has_turn):
            return NoResult(self.means.budget.spent, self.intake.refused)
        elif stops:
            self.reminded = True
            await self.talk.say(REMINDER)
        return None

    async def _deliver(self, *, follow_ups: bool) -> bool:
        """Put the messages that are due into the conversation; return whether there were any."""
        due = await self.means.steers.take(follow_ups=follow_ups)
        for steer in due:
            await self.talk.say(steer.text)
        return bool(due)

    async def _next_answer(self) -> AssistantMessage | AnswerFailed:
        """Return the model's next answer, the conversation shortened before it where it must be."""
        self.means.note(TurnStarted(self.attempt, self.means.budget.spent.turns))
        context = self.means.model.context_tokens
        is_compacted = context is not None and self.talk.tokens > divide(context).fill
        if context is not None and is_compacted:
            failure = await self._compact(divide(context))
            # A guess may be wrong: what cannot be shortened is sent as it is.
            if failure is not None and failure.trouble is not Trouble.CONTEXT_LENGTH:
                return failure
        answer = await self._ask()
        if not _is_too_long(answer):
            return answer
        if not is_compacted:
            room = divide_unknown(self.talk.tokens) if context is None else divide(context)
            failure = await self._compact(room)
            if failure is not None:
                return failure
            answer = await self._ask()
        return self._full() if _is_too_long(answer) else answer

    async def _ask(self) -> AssistantMessage | AnswerFailed:
        talk = self.talk
        question = Question(
            talk.system, talk.messages, talk.tools, frozenset(talk.history.call_ids)
        )
        message, end = await self.asker.ask(question, self._keep_broken)
        if isinstance(end, AnswerFailed):
            return end
        await talk.hear(message, end)
        is_cut = end.stop_reason is StopReason.LENGTH and not message.calls
        self.cuts = self.cuts + 1 if is_cut else 0
        self._note_end(end.stop_reason)
        return message

    async def _keep_broken(self, message: AssistantMessage, end: AnswerFailed) -> None:
        await self.talk.mishear(message, end)
        self._note_end(StopReason.ERROR)

    async def _compact(self, room: Room) -> AnswerFailed | None:
        """Have the older part of the conversation summarised; return why that failed, if it did."""
        cut = find_cut(self.talk.messages, room.kept)
        if cut is None:
            return self._full()
        request = summary_request(self.talk.before(cut), room)
        question = Question(SUMMARY_SYSTEM, (request,), is_aside=True)
        message, end = await self.asker.ask(question, self._keep_broken)
        self._report_usage()
        if isinstance(end, AnswerFailed):
            return end
        if self.means.budget.tripped() is not None:
            return AnswerFailed(Trouble.OTHER, "the summary cost more than was left")
        if not message.text.strip():
            return self._full()
        self.means.note(ContextCompacted(self.attempt, self.talk.tokens))
        await self.talk.compact(cut, message.text.strip(), end.usage)
        return None

    async def _carry_out(self, calls: Sequence[ToolCall]) -> BudgetKind | None:
        """Carry calls out in their order; return what forbids the next one, if anything does."""
        for call in calls:
            if self.intake.accepted is not None:
                await self.talk.answer(call, ToolAnswer(_TOO_LATE, is_error=True))
                continue
            answer = await self.hands.carry_out(call)
            if isinstance(answer, BudgetKind):
                return answer
            await self.talk.answer(call, answer)
        if calls:
            self._report_usage()
        return None

    def _note_end(self, reason: StopReason) -> None:
        self.means.note(MessageEnded(self.attempt, reason.value))
        self._report_usage()

    def _report_usage(self) -> None:
        spent = self.means.budget.spent
        self.means.note(
            UsageReported(
                self.attempt,
                turns=spent.turns,
                tool_calls=spent.tool_calls,
                input_tokens=spent.usage.input_tokens,
                output_tokens=spent.usage.output_tokens,
                cost_usd=spent.usage.cost_usd,
            )
        )

    def _full(self) -> AnswerFailed:
        context = self.means.model.context_tokens
        size = "" if context is None else f" of {context:,} tokens"
        return AnswerFailed(
            Trouble.CONTEXT_LENGTH,
            f"the model's context{size} is full and the conversation cannot be shortened further:"
            " split the task, or choose a model with a larger context",
        )

    def _exceeded(self, which: BudgetKind) -> BudgetExceeded:
        budget = self.means.budget
        return BudgetExceeded(which, budget.describe(which), budget.spent)


def _is_too_long(answer: AssistantMessage | AnswerFailed) -> bool:
    return isinstance(answer, AnswerFailed) and answer.trouble is Trouble.CONTEXT_LENGTH
