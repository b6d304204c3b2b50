from typing import Any

from agents.models.port import (
    AssistantMessage,
    Message,
    StopReason,
    Thought,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from agents.session_branch import Shown
from agents.session_form import answer_message, tool_message, user_message
from agents.session_messages import NO_ANSWER, read_messages
from engine.core.spec import ModelChoice, Thinking

CHOICE = ModelChoice("acme", "m1", Thinking.OFF)
LOOK = ToolCall("call_1", "read", {"path": "a"})


def read(*messages: Any, provider: str = "acme", model: str = "m1") -> list[Message]:
    shown = [Shown(str(number), message) for number, message in enumerate(messages)]
    return [message for _, message in read_messages(shown, provider, model)]


def answer(*calls: ToolCall, text: str = "", stop: StopReason = StopReason.TOOL_USE) -> Any:
    return answer_message(AssistantMessage(text, calls), CHOICE, stop, Usage())


def test_what_we_saved_is_read_back_as_it_was() -> None:
    messages: list[Message] = [
        UserMessage("Begin, ü."),
        AssistantMessage(
            "I look.", (LOOK,), (Thought("hm", "signed"), Thought("", "x", is_redacted=True))
        ),
        ToolMessage("call_1", "read", "no such file", is_error=True),
        AssistantMessage("Gone."),
    ]
    begun, looked, failed, gone = messages
    assert isinstance(begun, UserMessage)
    assert isinstance(looked, AssistantMessage)
    assert isinstance(failed, ToolMessage)
    assert isinstance(gone, AssistantMessage)
    saved = (
        user_message(begun),
        answer_message(looked, CHOICE, StopReason.TOOL_USE, Usage()),
        tool_message(failed, {"for": "programs"}),
        answer_message(gone, CHOICE, StopReason.STOP, Usage()),
    )
    assert read(*saved) == messages


def test_thoughts_go_back_to_nobody_but_the_model_that_had_them() -> None:
    thoughtful = AssistantMessage("Yes.", thoughts=(Thought("hm"),))
    saved = answer_message(thoughtful, CHOICE, StopReason.STOP, Usage())
    assert read(saved, model="m2") == [AssistantMessage("Yes.")]
    assert read({**saved, "api": "anthropic-messages"}) == [AssistantMessage("Yes.")]


def test_answers_that_broke_off_are_left_out_with_what_their_calls_were_answered() -> None:
    broken = answer(LOOK, stop=StopReason.ABORTED)
    late = tool_message(ToolMessage("call_1", "read", "too late"))
    assert read(broken, late, answer(text="x", stop=StopReason.ERROR)) == []


def test_a_call_that_nobody_answered_gets_an_answer_before_anything_else_is_said() -> None:
    other = ToolCall("call_2", "read", {"path": "b"})
    second = tool_message(ToolMessage("call_2", "read", "b"))
    found = read(answer(LOOK, other), second, user_message(UserMessage("Go on.")))
    assert found == [
        AssistantMessage("", (LOOK, other)),
        ToolMessage("call_2", "read", "b"),
        ToolMessage("call_1", "read", NO_ANSWER, is_error=True),
        UserMessage("Go on."),
    ]


def test_calls_at_the_end_stay_open() -> None:
    assert read(answer(LOOK)) == [AssistantMessage("", (LOOK,))]


def test_ids_that_no_other_provider_takes_are_replaced_with_those_that_refer_to_them() -> None:
    odd = ToolCall("call|" + "x" * 100, "read", {})
    again = ToolCall("call_1", "read", {})
    found = read(
        answer(LOOK),
        tool_message(ToolMessage(LOOK.id, "read", "one")),
        answer(odd),
        tool_message(ToolMessage(odd.id, "read", "two")),
        answer(again),
        tool_message(ToolMessage("call_1", "read", "three")),
    )
    calls = [call.id for each in found if isinstance(each, AssistantMessage) for call in each.calls]
    answers = [each.call for each in found if isinstance(each, ToolMessage)]
    assert answers == calls
    assert len(set(calls)) == 3
    assert all(len(call) <= 64 and call.replace("_", "").isalnum() for call in calls)


def test_what_is_no_text_is_said_to_be_left_out_or_passed_over() -> None:
    content = [{"type": "text", "text": "See "}, {"type": "image", "data": "…"}, {"type": "new"}, 7]
    assert read({"role": "user", "content": content}) == [
        UserMessage("See (an image was left out)")
    ]
    assert read({"role": "user", "content": None}, {"role": "unknown"}) == [UserMessage("")]


def test_a_command_of_the_user_is_read_unless_it_was_kept_from_models() -> None:
    ran = {"role": "bashExecution", "command": "ls", "output": "a.txt"}
    hidden = {**ran, "excludeFromContext": True}
    assert read(ran, hidden) == [UserMessage("Ran `ls`\na.txt")]


def test_arguments_that_are_no_object_are_read_as_none() -> None:
    piece = {"type": "toolCall", "id": "call_1", "name": "read", "arguments": "?"}
    found = read({"role": "assistant", "content": [piece]})
    assert found == [AssistantMessage("", (ToolCall("call_1", "read", {}),))]
