"""Takes the result of an agent in, or says why not; the same for every backend."""

from dataclasses import dataclass

import trio

from agents.budget import Budget
from agents.filetools.tool import ToolAnswer
from agents.models.port import ToolCall
from agents.steering import Steers
from agents.submission import Submission, SubmissionRules, check_submission

_NOT_YET = (
    "not accepted yet: messages have come for you and follow. Read them, do what they ask, then"
    " hand in again"
)


@dataclass(slots=True)
class Intake:
    """What became of one conversation's result.

    Attributes:
        accepted: the result that was handed in and accepted; the first one ends the work.
        held_back: a result was not accepted only because there are messages to read first.
        refused: the first fault of the last result that was refused; empty before any was.
        is_behind: messages are on their way to the agent that it has not seen yet.
    """

    rules: SubmissionRules
    budget: Budget
    steers: Steers
    accepted: Submission | None = None
    held_back: bool = False
    refused: str = ""
    is_behind: bool = False

    async def take(self, call: ToolCall) -> ToolAnswer:
        """Return what the agent is told about a call that hands a result in."""
        await trio.lowlevel.checkpoint()
        if call.fault is not None:
            self.refused = call.fault
            return ToolAnswer(f"{call.name}: {call.fault}", is_error=True)
        return self.judge(call.arguments)

    def judge(self, arguments: object) -> ToolAnswer:
        """Return what the agent is told about the result that it hands in."""
        judged = check_submission(arguments, self.rules)
        if not isinstance(judged, Submission):
            self.refused = judged[0]
            faults = "".join(f"\n- {fault}" for fault in judged)
            return ToolAnswer(f"not accepted; mend this and call it again:{faults}", is_error=True)
        is_behind = self.is_behind or bool(self.steers.unread)
        if is_behind and self.budget.has_turn and self.budget.has_call:
            self.held_back = True
            return ToolAnswer(_NOT_YET, is_error=True)
        self.accepted = judged
        self.steers.close()
        return ToolAnswer("accepted")
