"""The story in which every tool for managed agents is called and refused.

The calls that pages show are made as they are shown. Nothing is started: mailboxes and session
files are real, and agents are records, or played.
"""

import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from agents.definition import Source
from agents.herd_definition import HerdDefinition
from agents.herdsman.errors import Category, HerdError, Trouble
from agents.herdsman.identity import GenerationId
from agents.herdsman.overflow import MODEL_LIMIT_BYTES
from agents.herdsman.record import Ask, ContextUsage, Failure, FailureCode, RejectionCode, Result
from agents.herdsman.result_text import Delivery, result_message
from agents.herdsman.runtime import (
    ATTENTION,
    QUESTION,
    RESULT,
    RETIRED,
    ForegroundProcess,
    Lifecycle,
)
from agents.roster import Roster, Unavailable
from engine.core.errors import ExternalError
from engine.core.spec import Backend, Thinking
from pinata.tools.herd import refusal
from pinata.tools.registry import Answer
from tests.support.clock import patient_clock
from tests.support.deaths import failing_at
from tests.support.herd_desks import Desk, Puppet, open_desk
from tests.support.herd_owners import TASK, Stage
from tests.support.herd_records import NOW_MS, ask_id, result_error, session, state_of, uid
from tests.support.herd_story import ANY, ANY_AGENT, FILES, HerdStory, Told
from tests.support.herd_talk import Turn, tool_of
from tests.support.herd_told import Book, keeping, telling
from tests.support.reference import Page

DETAILS = {
    RESULT: "herd.md#details-of-a-result",
    QUESTION: "herd.md#details-of-a-question",
    ATTENTION: "herd.md#details-of-an-attention-message",
}
_HANGS = Turn("Let me see.", hangs=True)
_ASK = "ask_owner"


def tell_herd_story(folder: Path) -> HerdStory:
    """Play it in `folder`."""
    story = HerdStory(folder)
    trio.run(_tell, story, clock=patient_clock())
    return story


async def _tell(story: HerdStory) -> None:
    for play in (_list, _control, _refuse_control, _close, _look, _tell_messages):
        async with _stage(story) as stage:
            await play(story, stage)
    for act in (_begin, _go_on, _ask, _refuse_start):
        async with _desk(story) as desk:
            await act(story, desk)


@asynccontextmanager
async def _stage(story: HerdStory) -> AsyncIterator[Stage]:
    yield Stage.at(_fresh(story))


@asynccontextmanager
async def _desk(story: HerdStory) -> AsyncIterator[Desk]:
    async with open_desk(_fresh(story)) as desk:
        (desk.folder / "notes.md").write_text("Halves of a cent are rounded up.\n")
        yield desk


def _fresh(story: HerdStory) -> Path:
    """Return an empty folder, in which agents work in what pages call the reader's."""
    shutil.rmtree(story.folder, ignore_errors=True)
    story.folder.mkdir(parents=True)
    return story.folder


async def _list(story: HerdStory, stage: Stage) -> None:
    by = stage.controller()
    scout = HerdDefinition("scout", "Answers one question with evidence.", "Scout.\n", ())
    stage.roster = Roster({}, herd={"scout": replace(scout, sources=(Source.PRESET,))})
    await stage.add("reader", last_activity_ms=NOW_MS, definition="scout")
    await story.show(by, "agent_list")

    stage.roster = _full_roster()
    await stage.add_parent("boss", "child")
    await stage.add("stale", last_activity_ms=NOW_MS - 11 * 60_000)
    broken = await stage.add("broken")
    await stage.mailbox("broken").write_state(result_error(broken))
    await stage.add("unreadable")
    (stage.mailbox("unreadable").folder / "state.json").write_text("{")
    stage.endings.cleanup_errors[broken.of.generation] = "no space left on device"
    await story.call(by, "agent_list")

    stage.roster = ExternalError("the definitions cannot be read")
    await story.call(by, "agent_list")
    long = replace(scout, description="d" * MODEL_LIMIT_BYTES)
    stage.roster = Roster({}, herd={"scout": long})
    await story.call(by, "agent_list")

    stage.runtime.fault = "no answer"
    await story.refuse(by, "agent_list", of=ANY)
    await story.refuse(by, "agent_list", of=ANY, state="working")
    await story.refuse(by, "agent_close", of=ANY, agent="Not a label")


def _full_roster() -> Roster:
    every = HerdDefinition(
        "every",
        "States all that there is.",
        "Work.\n",
        (Source.USER,),
        enabled=False,
        model=("some", "model"),
        thinking=Thinking.HIGH,
        backend=Backend.PROCESS,
        codemode=True,
        tools=("read",),
        exclude_tools=("bash",),
        no_tools=True,
        no_builtin_tools=True,
        skills=("/skills",),
        no_skills=True,
        inherit_skills=True,
        extensions=("/extension.ts",),
        no_extensions=True,
        agents=("scout",),
    )
    faulty = Unavailable(
        "faulty",
        Source.USER,
        "tools must be a list",
        "/faulty.md",
        "/faulty.md: tools must be a list",
        description="Has a fault.",
    )
    return Roster({}, (faulty,), herd={"every": every})


async def _question(stage: Stage, label: str) -> None:
    """Have an agent wait with a question."""
    state = await stage.change(label, pending_ask=ask_id("which"))
    question = Ask(state.of, ask_id("which"), TASK, state.session, "Which one?", NOW_MS)
    await stage.mailbox(label).write_ask(question)


async def _control(story: HerdStory, stage: Stage) -> None:
    by = stage.controller()
    (stage.folder / "notes.md").write_text("Halves of a cent are rounded up.\n")
    await stage.add("mender")
    for tool in ("agent_steer", "agent_interrupt"):
        async with stage.answering("mender"):
            await story.show(by, tool)
    await stage.add("asker", lifecycle=Lifecycle.IDLE)
    await _question(stage, "asker")
    async with stage.answering("asker"):
        await story.show(by, "agent_reply")


async def _refuse_control(story: HerdStory, stage: Stage) -> None:
    by, told = stage.controller(), {"message": "Go on."}
    for tool in ("agent_steer", "agent_interrupt"):
        await stage.add(tool)
        async with stage.answering(tool, RejectionCode.BUSY, "its result is being written"):
            await story.refuse(by, tool, agent=tool, **told)
        await story.refuse(by, tool, agent=tool, **told)  # nobody answers
        await story.refuse(by, tool, agent=tool, **told)  # as the last one is not answered
    await stage.add("asker", lifecycle=Lifecycle.IDLE)
    await story.refuse(by, "agent_reply", agent="asker", **told)
    await _question(stage, "asker")
    async with stage.answering("asker", RejectionCode.AMBIGUOUS, "a reference is known already"):
        await story.refuse(by, "agent_reply", agent="asker", **told)
    (stage.mailbox("asker").folder / "ask.json").write_text("{")
    await story.refuse(by, "agent_reply", agent="asker", **told)

    await stage.add("lost", lifecycle=None)
    odd = await stage.add("odd")
    agent = stage.runtime.agents[odd.handle]
    stage.runtime.agents[odd.handle] = replace(agent, session=session("another"))
    for label in ("nobody", "lost", "odd"):
        await story.refuse(by, "agent_steer", of=ANY_AGENT, agent=label, **told)

    await stage.add("mender")
    for file in ("missing.md", "result:reader#1", "result:reader", "result:reader#0"):
        await story.refuse(by, "agent_steer", of=FILES, agent="mender", **told, files=[file])
    long = "m" * (1 << 18)
    await story.refuse(by, "agent_steer", of=FILES, agent="mender", message=long)


async def _close(story: HerdStory, stage: Stage) -> None:
    by = stage.controller()
    await stage.add("mender")
    await story.show(by, "agent_close")
    await stage.add("mender")
    with failing_at("herd.mailbox.emptied"):
        await story.call(by, "agent_close", agent="mender")
    gone = await stage.add_parent("gone", "below")
    await stage.finish("below")
    stage.see(gone, None)
    await story.call(by, "agent_close", agent="gone")
    done = await stage.add("done")
    await stage.finish("done")
    await story.refuse(by, "agent_close", agent="done")
    await stage.mailbox("done").remove()
    stage.see(done, None)
    await stage.add("starting", active=None)
    async with stage.mailbox("starting").claim_start():
        await story.refuse(by, "agent_close", agent="starting")
    await stage.add("other")
    (stage.mailbox("other").folder / "state.json").write_text("{")
    await story.refuse(by, "agent_close", agent="starting")


async def _look(story: HerdStory, stage: Stage) -> None:
    by = stage.controller()
    reader = await stage.add("reader")
    await story.refuse(by, "agent_transcript", agent="reader")
    file = stage.session_file("reader")
    file.write_text("this is no session\n")
    await story.refuse(by, "agent_transcript", agent="reader")
    header = {"type": "session", "version": 3, "id": reader.session, "cwd": reader.cwd}
    said = {"type": "message", "id": "1", "message": {"role": "user", "content": "Look."}}
    file.write_text(f"{json.dumps(header)}\n{json.dumps(said)}\n")
    await story.show(by, "agent_transcript")
    stage.runtime.output = ("$ make test", "12 passed")
    stage.runtime.programs = (ForegroundProcess(4711, "make", "make test"),)
    await story.show(by, "agent_inspect")
    stage.runtime.programs = ExternalError("nobody can tell")
    await story.call(by, "agent_inspect", agent="reader")

    async def replaced(_: object) -> None:
        await stage.mailbox("reader").remove()
        of = replace(reader.of, generation=GenerationId(uid("another")))
        await stage.mailbox("reader").write_state(replace(reader, of=of), creates=True)

    stage.runtime.while_capturing = replaced
    await story.refuse(by, "agent_inspect", agent="reader")


async def _begin(story: HerdStory, desk: Desk) -> None:
    desk.define("implementer")
    desk.runtime.script("mender").play(_HANGS)
    await story.show(desk.controller(), "agent_delegate")


async def _go_on(story: HerdStory, desk: Desk) -> None:
    by = desk.controller()
    desk.runtime.script("reader").play(Turn("It says one."), _HANGS, _HANGS)
    stated = {"definition": "scout", "label": "reader", "task": "Look."}
    first = await story.call(by, "agent_delegate", **stated)
    name, file = first["session_id"], Path(first["session_path"])
    await story.refuse(by, "agent_continue", session=name, task="Go on.")
    await desk.settle()
    await desk.end("reader")
    await story.show(by, "agent_continue", session=name)
    await desk.end("reader")

    for given in ("reader", uid("no session")):
        await story.refuse(by, "agent_continue", session=given, task="Go on.")
    await story.call(by, "agent_delegate", **stated)
    await story.refuse(by, "agent_continue", session=name, task="Go on.")
    await desk.end("reader")
    copy = _copied(file)
    await story.refuse(by, "agent_continue", session=name, task="Go on.")
    _retire(copy, name)
    await story.refuse(by, "agent_continue", session=str(copy), task="Go on.")


def _copied(file: Path) -> Path:
    """Have a session lie in two files, and return the second one."""
    copy = file.with_name(f"copy_{file.name}")
    copy.write_bytes(file.read_bytes())
    file.rename(file.with_name(f"first_{file.name}"))
    return copy


def _retire(file: Path, session_id: str) -> None:
    leaf = json.loads(file.read_text("utf-8").splitlines()[-1])["id"]
    mark = {"type": "custom", "customType": RETIRED, "data": {"session": session_id}}
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"id": "retired", "parentId": leaf, **mark}) + "\n")


async def _ask(story: HerdStory, desk: Desk) -> None:
    desk.runtime.script("mender").play(_HANGS)
    stated = {"definition": "scout", "label": "mender", "task": "Look."}
    await story.call(desk.controller(), "agent_delegate", **stated)
    await desk.settle()
    tool = tool_of(desk.runtime.agent("mender").attendant, _ASK)
    assert tool is not None

    async def ask(*, is_alone: bool = True) -> Mapping[str, Any]:
        reply = await tool.call(Page("tools/ask_owner.md").json("call"), is_alone)
        return reply.details

    refusals = [await ask(is_alone=False)]
    story.examples[_ASK] = dict(await ask())
    story.told.append(Told("tools/ask_owner.md#answer", story.examples[_ASK]))
    refusals.append(await ask())
    await desk.mailbox("mender").remove()
    refusals.append(await ask())
    story.told += [Told("herd.md#a-refusal", dict(one)) for one in refusals]
    story.told.append(Told("herd.md#a-refusal", _left_over()))
    story.refused[_ASK] = [one["error"] for one in refusals]


def _left_over() -> Answer:
    """Return what a start is refused with that could not be undone."""
    start = Trouble(Category.PANE_NOT_READY, "it did not come up", "delegate")
    undoing = Trouble(Category.INTERNAL_FAILURE, "it is still there", "delegate")
    both = Trouble(
        Category.ROLLBACK_FAILURE,
        "it did not come up; it could not be undone: it is still there",
        "delegate",
        primary=start,
        cleanup=undoing,
    )
    return refusal("delegate", HerdError(both))


async def _refuse_start(story: HerdStory, desk: Desk) -> None:
    by, tool = desk.controller(), "agent_delegate"
    desk.define("idle", "enabled: false")
    desk.define("faulty", "thinking: deeply")
    for name in ("nobody", "idle", "faulty"):
        await story.refuse(by, tool, definition=name, task="Look.")
    desk.runtime.script("reader").play(_HANGS)
    stated = {"definition": "scout", "label": "reader", "task": "Look."}
    await story.call(by, tool, **stated)
    await story.refuse(by, tool, **stated)
    agent = desk.controller(session("agent"), is_lead=False, allowed=frozenset({"scout"}))
    await story.refuse(agent, tool, definition="idle", task="Look.")
    desk.attendant = lambda birth: Puppet(desk=desk, birth=birth, dies=True)
    await story.refuse(desk.controller(), tool, **{**stated, "label": "weak"})


async def _tell_messages(story: HerdStory, stage: Stage) -> None:
    book = Book()
    await stage.add("done")
    await stage.finish("done")
    await stage.add("asker", lifecycle=Lifecycle.IDLE)
    await _question(stage, "asker")
    await stage.add("stale", last_activity_ms=NOW_MS - 11 * 60_000)
    async with keeping(telling(stage.controller(), book)):
        # Long enough for looks that nobody rings for.
        await trio.sleep(120)
    story.told += [Told(DETAILS[one.kind], dict(one.details)) for one in book.told]

    usage = ContextUsage(tokens=90, context_window=100, percent=90.0)
    state = state_of("done")
    done = Result(state.of, TASK, "completed", NOW_MS, "word\n" * 3_000, usage=usage)
    silent = Failure(FailureCode.EMPTY_RESULT, "the agent ended without saying anything")
    for delivery in (
        Delivery(state, done, is_retired=True, started_ms=NOW_MS - 5, index=2),
        Delivery(state, done, persistence_error="no space left on device"),
        Delivery(state, Result(state.of, TASK, "failed", NOW_MS, error=silent)),
    ):
        details = result_message(delivery).details
        story.told.append(Told(DETAILS[RESULT], dict(details)))
