"""What our extension in a Pi that is a managed agent is told when it asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from agents.backends.pi_secrets import ReadingPlace, secret_refusal
from agents.herdsman.pi_heard import Answered, CallBegan, CallEnded
from agents.herdsman.pi_outbox import Outbox
from agents.herdsman.runtime import Attendant, CompactionReason
from engine.core.quote import quote_value

Answer = Mapping[str, Any]
_REASONS = {each.value: each for each in CompactionReason}


@dataclass(slots=True)
class _Call:
    """A call of a tool that the child has announced; `scope` is there while it is carried out."""

    tool: str
    arguments: Mapping[str, Any]
    is_alone: bool
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


class PiAnswers:
    """Answers the questions of one child."""

    def __init__(self, attendant: Attendant, outbox: Outbox, place: ReadingPlace) -> None:
        """Begin before anything was asked.

        Args:
            attendant: carries the tools out, and says what the agent may.
            outbox: holds what is to enter the conversation.
            place: where its own tools read.
        """
        self._attendant = attendant
        self._tools = {tool.declaration.name: tool for tool in attendant.tools}
        self._outbox = outbox
        self._place = place
        self._alone: frozenset[str] = frozenset()
        self._calls: dict[str, _Call] = {}

    def hear_answer(self, answer: Answered) -> None:
        """Note which calls are to come."""
        self._alone = frozenset(answer.calls if len(answer.calls) == 1 else ())

    def hear_call(self, began: CallBegan) -> None:
        """Note a call, with the arguments that the model sent; Pi makes them fit before it asks."""
        if began.tool in self._tools:
            is_alone = began.call in self._alone
            self._calls[began.call] = _Call(began.tool, began.arguments, is_alone)

    def hear_end(self, ended: CallEnded) -> None:
        """Stop what still carries out a call of which the child expects nothing any more."""
        call = self._calls.pop(ended.call, None)
        if call is not None:
            call.scope.cancel()

    async def answer(self, question: Mapping[str, Any], *, is_ending: bool) -> Answer:
        """Return the answer; whatever is asked, there is one.

        Args:
            question: what is asked.
            is_ending: the agent is being interrupted.
        """
        match question.get("ask"):
            case "take":
                return self._outbox.take(question.get("id"))
            case "tool":
                return await self._carry_out(question)
            case "call":
                return await self._judge(question.get("tool"), question.get("arguments"))
            case "compact":
                return await self._judge_compaction(question.get("reason"))
            case "turn" | "rest":
                return {} if is_ending else self._waiting(question.get("outcome"))
            case other:
                return {"refusal": f"nobody knows how to answer {quote_value(other)}"}

    async def _carry_out(self, question: Mapping[str, Any]) -> Answer:
        call = self._calls.get(str(question.get("call")))
        if call is None or call.tool != question.get("tool"):
            return {"text": "not carried out: nobody announced this call", "isError": True}
        with call.scope:
            tool = self._tools[call.tool]
            reply = await tool.call(call.arguments, call.is_alone)
            return {
                "text": reply.text,
                "details": dict(reply.details),
                "isError": reply.is_error,
                "endsTurn": reply.ends_turn,
            }
        return {"text": "not carried out: the call was cut off", "isError": True}

    async def _judge(self, tool: object, arguments: object) -> Answer:
        name = tool if isinstance(tool, str) else ""
        refusal = await trio.to_thread.run_sync(secret_refusal, name, arguments, self._place)
        return {} if refusal is None else {"refusal": refusal}

    async def _judge_compaction(self, reason: object) -> Answer:
        known = _REASONS.get(str(reason))
        if known is None or await self._attendant.may_compact(known):
            return {}
        return {"refusal": "the conversation is not to be shortened"}

    def _waiting(self, outcome: object) -> Answer:
        """Return what has come for the agent since it was last asked.

        After a fault there is nothing: to ask the model on would only repeat it.
        """
        return self._outbox.take_messages() if outcome == "completed" else {}
