from pathlib import Path

import pytest
import trio

from agents.filetools.tool import Tool, ToolAnswer, ToolContext
from agents.guard import Guard
from agents.toolbox import MAX_ANSWER_CHARS, Toolbox
from engine.core.spec import Kind
from tests.support.toolbox import Toolbox as Workshop

READING = ("read", "ls")


def toolbox_of(shop: Workshop, names: tuple[str, ...] = READING) -> Toolbox:
    guard = Guard(Kind.READER, shop.root, (), names, fold_case=False)
    return Toolbox(names, guard, shop.context)


def broken_toolbox(shop: Workshop, tool: Tool) -> Toolbox:
    guard = Guard(Kind.READER, shop.root, (), ("read",), fold_case=False)
    return Toolbox(("read",), guard, shop.context, {"read": tool})


async def test_tools_are_shown_in_their_order_and_carry_calls_out(tmp_path: Path) -> None:
    shop = Workshop.create(tmp_path)
    shop.put("a.txt", "hello\n")
    box = toolbox_of(shop, ("ls", "read"))
    assert [each.name for each in box.declarations] == ["ls", "read"]
    assert all(each.parameters["type"] == "object" for each in box.declarations)
    assert await box.call("read", {"path": "a.txt"}) == ToolAnswer("hello")


@pytest.mark.parametrize("name", ["write", "bash", "nonsense", "submit_result"])
async def test_what_is_not_in_the_box_is_refused(tmp_path: Path, name: str) -> None:
    shop = Workshop.create(tmp_path)
    answer = await toolbox_of(shop).call(name, {"path": "a.txt", "content": "x"})
    assert answer.is_error
    assert "read and ls" in answer.text
    assert shop.names() == []


async def test_a_tool_that_the_guard_knows_and_the_box_does_not_is_refused(tmp_path: Path) -> None:
    shop = Workshop.create(tmp_path)
    guard = Guard(Kind.READER, shop.root, (), ("read", "grep"), fold_case=False)
    box = Toolbox(("read",), guard, shop.context)
    assert await box.call("grep", {}) == ToolAnswer(
        "there is no tool of that name; yours are read", is_error=True
    )


async def test_a_bug_in_a_tool_does_not_end_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def explode(context: ToolContext, arguments: object) -> ToolAnswer:
        raise ZeroDivisionError

    box = broken_toolbox(Workshop.create(tmp_path), Tool("read", "", {}, explode))
    assert await box.call("read", {}) == ToolAnswer(
        "read broke down; try another way", is_error=True
    )
    assert "tool read broke" in caplog.text


async def test_an_endless_answer_is_cut(tmp_path: Path) -> None:
    async def babble(context: ToolContext, arguments: object) -> ToolAnswer:
        return ToolAnswer("x" * 10_000_000)

    box = broken_toolbox(Workshop.create(tmp_path), Tool("read", "", {}, babble))
    answer = await box.call("read", {})
    assert answer == ToolAnswer("x" * MAX_ANSWER_CHARS + "\n[cut]")


async def test_a_tool_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    started = trio.Event()

    async def wait(context: ToolContext, arguments: object) -> ToolAnswer:
        started.set()
        await trio.sleep_forever()

    box = broken_toolbox(Workshop.create(tmp_path), Tool("read", "", {}, wait))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(box.call, "read", {})
        await started.wait()
        nursery.cancel_scope.cancel()
