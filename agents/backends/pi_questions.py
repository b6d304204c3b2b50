"""What our extension in a Pi that runs an agent is told when it asks: about calls, results, stops.

Every call of the agent waits for its answer here, also one that a script makes; without an answer
none is made.
"""

from collections.abc import Mapping
from typing import Any

import trio

from agents.backends.attempt import AttemptSpec
from agents.backends.pi_secrets import ReadingPlace, secret_refusal
from agents.budget import Budget
from agents.guard import Guard
from agents.intake import Intake
from agents.loop import REMINDER
from agents.steering import Steers
from engine.core.quote import quote_value

Answer = Mapping[str, str]
_OVER = "not carried out: your result was accepted, and with it your work is done"


class Questions:
    """Answers the questions of one conversation; `refusal` forbids what is asked about."""

    def __init__(
        self, attempt: AttemptSpec, guard: Guard, *, intake: Intake, budget: Budget, steers: Steers
    ) -> None:
        """Begin with an agent that was not reminded of its result.

        Args:
            attempt: the agent's.
            guard: what its calls must pass.
            intake: takes its result.
            budget: what it may still use.
            steers: the messages for it.
        """
        self._attempt = attempt
        self._guard = guard
        self._intake = intake
        self._budget = budget
        self._steers = steers
        self._reminded = False

    async def answer(self, question: Mapping[str, Any]) -> Answer:
        """Return the answer; whatever is asked, there is one.

        Raises:
            ExternalError: the delivery of a message cannot be recorded.
        """
        arguments = question.get("arguments")
        match question.get("ask"):
            case "call":
                return await self._judge_call(question.get("tool"), arguments)
            case "submit":
                return self._judge_result(arguments)
            case "settle":
                return await self._more(question.get("outcome"))
            case other:
                return {"refusal": f"nobody knows how to answer {quote_value(str(other))}"}

    async def _judge_call(self, tool: object, arguments: object) -> Answer:
        if self._intake.accepted is not None:
            return {"refusal": _OVER}
        name = tool if isinstance(tool, str) else ""
        refusal = await trio.to_thread.run_sync(self._refusal, name, arguments)
        return {} if refusal is None else {"refusal": refusal}

    def _refusal(self, tool: str, arguments: object) -> str | None:
        refusal = self._guard.check(tool, arguments)
        if refusal is not None:
            return refusal.message
        context = self._attempt.context
        place = ReadingPlace(context.root, context.home, context.secrets)
        return secret_refusal(tool, arguments, place)

    def _judge_result(self, arguments: object) -> Answer:
        if self._intake.accepted is not None:
            return {"refusal": _OVER}
        answer = self._intake.judge(arguments)
        return {"refusal" if answer.is_error else "text": answer.text}

    async def _more(self, outcome: object) -> Answer:
        """Return a reason to go on for a child that would stop now, if there is one left."""
        if self._intake.accepted is not None or outcome != "completed":
            return {}
        if not self._budget.has_turn:
            return {}
        due = await self._steers.take(follow_ups=True)
        if due:
            return {"more": "\n\n".join(steer.text for steer in due)}
        if self._reminded:
            return {}
        self._reminded = True
        return {"more": REMINDER}
