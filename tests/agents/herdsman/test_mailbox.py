"""Tests of `agents.herdsman.mailbox`; what happens in crashes is in `test_mailbox_crashes`."""

import os
import stat
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agents.herdsman.config import change_config
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import Handle, Label, RequestId
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.mailbox_names import folder_name, is_folder_name
from agents.herdsman.premises import Premises
from agents.herdsman.record import (
    Acknowledgement,
    Contents,
    Injection,
    NothingPending,
    OnePending,
    RejectionCode,
    Request,
    RequestKind,
    UnclearPending,
)
from agents.herdsman.record_form import STATE_LIMIT_BYTES, UnreadableRecordError
from agents.herdsman.signals import ANYTHING
from engine.system import faults
from tests.support.herd_boxes import (
    Full,
    box_of,
    premises_at,
    question,
    result,
    steer,
    tree,
)
from tests.support.herd_records import NOW_MS, TASK, WORKSPACE, request, session, state_of, uid

SCOUT = state_of("scout", active=TASK)


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return premises_at(tmp_path)


async def refused(call: Awaitable[object], category: Category) -> HerdError:
    with pytest.raises(HerdError) as caught:
        await call
    assert caught.value.trouble.category is category
    return caught.value


async def made(premises: Premises, **changes: object) -> Mailbox:
    """Return a mailbox that holds nothing but the state of a scout at work."""
    mailbox = box_of(premises)
    await mailbox.write_state(replace(SCOUT, **changes), creates=True)  # type: ignore[arg-type]  # fields of a state
    return mailbox


async def read(mailbox: Mailbox) -> Contents:
    contents = await mailbox.read()
    assert contents is not None
    return contents


def plant(path: Path, kind: str) -> None:
    """Put something at `path` that is no file that can be read."""
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            target = path.with_name("target")
            target.write_bytes(b"{}")
            path.symlink_to(target)
        case "dangling link":
            path.symlink_to("nowhere")
        case "noise":
            path.write_bytes(b"{")
        case _:
            path.write_bytes(b"")


KINDS = ("fifo", "folder", "link", "dangling link", "noise", "empty")


async def test_a_mailbox_that_was_never_made_is_not_there(premises: Premises) -> None:
    mailbox = box_of(premises)
    assert await mailbox.read() is None
    assert await mailbox.read_state() is None
    assert await mailbox.read_ask() is None
    assert await mailbox.read_request(TASK) is None
    assert await mailbox.read_result(TASK) is None
    assert not await mailbox.exists()
    assert not await mailbox.is_occupied()
    await mailbox.remove_ask()
    await mailbox.remove_request(TASK)
    await mailbox.remove_result(TASK)
    await mailbox.remove()
    assert not premises.root.exists()


async def test_each_label_of_each_workspace_has_a_folder_of_its_own(premises: Premises) -> None:
    names = {
        folder_name(workspace, Label(label))
        for workspace, label in (("/a", "b"), ("/a", "bc"), ("/ab", "c"), ("/a/b", "c"))
    }
    assert len(names) == 4
    assert all(map(is_folder_name, names))
    mailbox = Mailbox.of_generation(premises, SCOUT.of)
    assert mailbox == box_of(premises)
    assert mailbox.folder == premises.mailboxes / folder_name(WORKSPACE, Label("scout"))


async def test_what_was_written_is_read(premises: Premises) -> None:
    full = await Full.at(premises)
    mailbox, state = full.mailbox, full.state
    assert await mailbox.read_state() == state
    assert await mailbox.read_request(steer(state).request) == steer(state)
    assert await mailbox.read_ask() == question(state)
    assert await mailbox.read_result(TASK) == result(state)
    assert await mailbox.read() == Contents(
        state, question(state), None, OnePending(steer(state)), frozenset({TASK})
    )
    assert await mailbox.exists()


async def test_what_is_in_the_mailbox_of_one_generation_is_given_to_whoever_means_that_one(
    premises: Premises,
) -> None:
    mailbox = await made(premises)
    assert await mailbox.read_exact(SCOUT.identity) == Contents(SCOUT)
    others = (
        replace(SCOUT, cwd="/elsewhere"),
        replace(SCOUT, session_file="/sessions/else.jsonl"),
        replace(SCOUT, session=session("else")),
        replace(SCOUT, of=replace(SCOUT.of, owner=session("else"))),
    )
    for other in others:
        error = await refused(mailbox.read_exact(other.identity), Category.TARGET_NOT_FOUND)
        assert str(error) == "agent 'scout' is not the one it was"
    await mailbox.remove()
    await refused(mailbox.read_exact(SCOUT.identity), Category.TARGET_NOT_FOUND)


async def test_a_mailbox_that_cannot_be_read_may_be_anybodys(premises: Premises) -> None:
    mailbox = await made(premises)
    (mailbox.folder / "state.json").write_text("{")
    error = await refused(mailbox.read_exact(SCOUT.identity), Category.TARGET_AMBIGUOUS)
    assert "the mailbox of agent 'scout' cannot be read" in str(error)


async def test_what_was_removed_is_not_there(premises: Premises) -> None:
    full = await Full.at(premises)
    mailbox = full.mailbox
    await mailbox.remove_request(steer(full.state).request)
    await mailbox.remove_ask()
    await mailbox.remove_result(TASK)
    assert await mailbox.read() == Contents(full.state)
    assert list(tree(mailbox.folder)) == ["state.json"]


async def test_folders_and_files_are_private_whatever_they_were(premises: Premises) -> None:
    mailbox = await made(premises)
    mailbox.folder.chmod(0o755)
    (mailbox.folder / "state.json").chmod(0o666)
    before = os.umask(0)
    try:
        await mailbox.write_state(SCOUT)
        await mailbox.write_state(replace(SCOUT, last_activity_ms=NOW_MS), flush=False)
        await mailbox.write_request(steer(SCOUT))
        async with mailbox.claim():
            pass
    finally:
        os.umask(before)
    for path in (premises.root, *premises.root.rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


async def test_nothing_is_made_for_a_record_that_is_refused(premises: Premises) -> None:
    mailbox = await made(premises)
    before = tree(premises.root)
    no_ask = replace(steer(SCOUT), kind=RequestKind.REPLY)
    astray = replace(steer(SCOUT), request=RequestId("../../x"))
    long = steer(SCOUT, text="x" * (1 << 20))
    blank = replace(result(SCOUT), text=" \n")
    endless = replace(SCOUT, definition="x" * STATE_LIMIT_BYTES)
    writes: tuple[Awaitable[object], ...] = (
        mailbox.write_request(no_ask),
        mailbox.write_request(astray),
        mailbox.write_request(long),
        mailbox.write_result(blank),
        mailbox.write_ask(replace(question(SCOUT), question="")),
        mailbox.write_state(endless),
        mailbox.write_state(replace(SCOUT, completed=TASK)),
        mailbox.remove_request(RequestId("../state")),
        mailbox.remove_result(RequestId("")),
        mailbox.read_request(RequestId("../state")),
    )
    for write in writes:
        await refused(write, Category.INVALID_REQUEST)
    assert tree(premises.root) == before


async def test_a_record_over_the_users_own_limit_is_still_read(premises: Premises) -> None:
    mailbox = await made(premises)
    long = steer(SCOUT, text="x" * 5000)
    await mailbox.write_request(long)
    await change_config(premises, {"mailboxPayloadLimitBytes": 1024})
    assert await mailbox.read_request(long.request) == long
    assert (await read(mailbox)).pending == OnePending(long)


async def test_labels_that_differ_in_case_are_not_the_same(premises: Premises) -> None:
    assert folder_name(WORKSPACE, Label("Scout")) != folder_name(WORKSPACE, Label("scout"))
    loud = replace(SCOUT, of=replace(SCOUT.of, label=Label("Scout")))
    write = Mailbox.of_generation(premises, loud.of).write_state(loud, creates=True)
    await refused(write, Category.INVALID_REQUEST)


async def test_a_record_goes_into_its_own_mailbox_alone(premises: Premises) -> None:
    other = state_of("tester", active=TASK)
    with pytest.raises(AssertionError):
        await (await made(premises)).write_request(steer(other))


async def test_a_mailbox_that_was_removed_is_not_made_again(premises: Premises) -> None:
    mailbox = await made(premises)
    await mailbox.remove()
    writes: tuple[Awaitable[None], ...] = (
        mailbox.write_state(SCOUT),
        mailbox.write_state(SCOUT, flush=False),
        mailbox.write_request(steer(SCOUT)),
        mailbox.write_ask(question(SCOUT)),
        mailbox.write_result(result(SCOUT)),
    )
    for write in writes:
        error = await refused(write, Category.TARGET_NOT_FOUND)
        assert "scout" in str(error)
    assert tree(premises.mailboxes) == {}


async def test_a_folder_without_a_state_is_no_mailbox(premises: Premises) -> None:
    mailbox = await made(premises)
    (mailbox.folder / "state.json").unlink()
    assert await mailbox.read() is None
    assert not await mailbox.exists()
    await refused(mailbox.write_request(steer(SCOUT)), Category.TARGET_NOT_FOUND)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_state_that_cannot_be_read_is_never_absent(premises: Premises, kind: str) -> None:
    mailbox = await made(premises)
    (mailbox.folder / "state.json").unlink()
    plant(mailbox.folder / "state.json", kind)
    for call in (mailbox.read, mailbox.read_state):
        with pytest.raises(UnreadableRecordError, match="state"):
            await call()
    assert await mailbox.exists()
    assert await mailbox.is_occupied()
    await refused(mailbox.reset(), Category.AGENT_LABEL_EXISTS)


@pytest.mark.parametrize("kind", KINDS)
async def test_other_records_that_cannot_be_read_are_never_absent(
    premises: Premises, kind: str
) -> None:
    mailbox = await made(premises, completed=None)
    one = request("one")
    for name in ("ask.json", f"request-{one}.json", f"result-{TASK}.json"):
        plant(mailbox.folder / name, kind)
        (mailbox.folder / "target").unlink(missing_ok=True)
        if kind == "link":
            (mailbox.folder / "target").write_bytes(b"{}")
    for call in (
        mailbox.read_ask,
        lambda: mailbox.read_request(one),
        lambda: mailbox.read_result(TASK),
    ):
        with pytest.raises(UnreadableRecordError):
            await call()
    contents = await read(mailbox)
    assert contents.ask is None
    assert contents.ask_fault is not None
    assert isinstance(contents.pending, UnclearPending)
    assert contents.results == {TASK}
    await mailbox.remove()
    assert tree(premises.mailboxes) == {}


async def test_what_stands_in_a_records_place_is_replaced_or_told(premises: Premises) -> None:
    mailbox = await made(premises)
    name = mailbox.folder / f"request-{steer(SCOUT).request}.json"
    plant(name, "fifo")
    await mailbox.write_request(steer(SCOUT))
    assert await mailbox.read_request(steer(SCOUT).request) == steer(SCOUT)
    plant(mailbox.folder / "ask.json", "folder")
    error = await refused(mailbox.write_ask(question(SCOUT)), Category.INTERNAL_FAILURE)
    assert "question of scout" in str(error)
    await mailbox.remove_ask()
    await mailbox.write_ask(question(SCOUT))


async def test_a_record_over_its_limit_is_not_even_parsed(premises: Premises) -> None:
    mailbox = await made(premises)
    with (mailbox.folder / "state.json").open("ab") as file:
        file.write(b" " * STATE_LIMIT_BYTES)
    with pytest.raises(UnreadableRecordError, match="longer than 65,536 bytes"):
        await mailbox.read()


async def test_a_mailbox_that_may_not_be_entered_is_not_absent(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = await made(premises)
    usual = os.lstat

    def forbid(path: Path) -> os.stat_result:
        if str(path).startswith(str(mailbox.folder)):
            raise PermissionError(13, "Permission denied")
        return usual(path)

    monkeypatch.setattr(os, "lstat", forbid)
    with pytest.raises(UnreadableRecordError, match="Permission denied"):
        await mailbox.read()
    for call in (mailbox.exists, mailbox.is_occupied, mailbox.remove):
        await refused(call(), Category.INTERNAL_FAILURE)


async def test_a_mailbox_that_cannot_be_listed_is_not_empty(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = await made(premises)

    def fail(_: Path) -> list[str]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "listdir", fail)
    with pytest.raises(UnreadableRecordError, match="it cannot be read: Input/output error"):
        await mailbox.read()
    await refused(mailbox.remove(), Category.INTERNAL_FAILURE)


async def test_what_else_stands_where_a_mailbox_would_is_left_alone(
    premises: Premises, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "state.json").write_text("{}")
    mailbox = box_of(premises)
    premises.mailboxes.mkdir(parents=True)
    mailbox.folder.symlink_to(elsewhere)
    with pytest.raises(UnreadableRecordError, match="it is no folder"):
        await mailbox.read()
    calls: tuple[Awaitable[object], ...] = (
        mailbox.write_state(SCOUT, creates=True),
        mailbox.write_request(steer(SCOUT)),
        mailbox.remove_ask(),
        mailbox.reset(),
        mailbox.remove(),
        mailbox.exists(),
    )
    for call in calls:
        await refused(call, Category.INTERNAL_FAILURE)
    assert tree(elsewhere) == {"state.json": b"{}"}


async def test_a_state_in_another_mailbox_is_not_believed(premises: Premises) -> None:
    mailbox, other = await made(premises), box_of(premises, "tester")
    mailbox.folder.rename(other.folder)
    with pytest.raises(UnreadableRecordError, match="another mailbox's"):
        await other.read()


async def test_a_record_under_another_name_is_not_believed(premises: Premises) -> None:
    full = await Full.at(premises)
    folder, other = full.mailbox.folder, request("other")
    (folder / f"request-{steer(full.state).request}.json").rename(folder / f"request-{other}.json")
    (folder / f"result-{TASK}.json").rename(folder / f"result-{other}.json")
    with pytest.raises(UnreadableRecordError, match="another id than its file"):
        await full.mailbox.read_request(other)
    with pytest.raises(UnreadableRecordError, match="another id than its file"):
        await full.mailbox.read_result(other)
    assert isinstance((await read(full.mailbox)).pending, UnclearPending)


ANSWERS: list[dict[str, object]] = [
    {"acknowledgement": Acknowledgement(request("steer"), accepted=True, at_ms=NOW_MS)},
    {
        "acknowledgement": Acknowledgement(
            request("steer"), accepted=False, at_ms=NOW_MS, code=RejectionCode.BUSY
        )
    },
    {"active": request("steer")},
    {"active": None, "completed": request("steer")},
    {"injection": Injection(request("steer"), RequestKind.INTERRUPT)},
]


@pytest.mark.parametrize("changes", ANSWERS)
async def test_a_request_that_was_answered_in_any_way_is_not_pending(
    premises: Premises, changes: dict[str, object]
) -> None:
    mailbox = await made(premises)
    await mailbox.write_request(steer(SCOUT))
    assert (await read(mailbox)).pending == OnePending(steer(SCOUT))
    await mailbox.write_state(replace(SCOUT, **changes))  # type: ignore[arg-type]  # fields of a state
    assert (await read(mailbox)).pending == NothingPending()
    (mailbox.folder / f"request-{steer(SCOUT).request}.json").write_bytes(b"{")
    assert (await read(mailbox)).pending == NothingPending()


async def test_an_answer_to_another_request_leaves_it_pending(premises: Premises) -> None:
    said = Acknowledgement(request("else"), accepted=True, at_ms=NOW_MS)
    mailbox = await made(premises, acknowledgement=said, completed=None)
    await mailbox.write_request(steer(SCOUT))
    assert (await read(mailbox)).pending == OnePending(steer(SCOUT))


async def test_two_pending_requests_are_unclear(premises: Premises) -> None:
    mailbox = await made(premises)
    await mailbox.write_request(steer(SCOUT, "one"))
    await mailbox.write_request(steer(SCOUT, "two"))
    assert (await read(mailbox)).pending == UnclearPending("2 requests wait for an answer")


async def test_a_request_whose_name_is_no_id_is_unclear(premises: Premises) -> None:
    mailbox = await made(premises)
    (mailbox.folder / "request-.json").write_bytes(b"")
    assert isinstance((await read(mailbox)).pending, UnclearPending)


async def test_all_requests_with_an_id_are_listed_whatever_they_hold(premises: Premises) -> None:
    assert await box_of(premises).requests() == []
    mailbox = await made(premises)
    broken, sound = sorted([RequestId(uid("broken")), request("next")])
    for name in (broken, sound, "no-id"):
        (mailbox.folder / f"request-{name}.json").write_text("{")
    (mailbox.folder / "request-of-nobody").write_text("{")
    assert await mailbox.requests() == [broken, sound]


async def test_a_request_that_is_left_waits_again_after_the_next_answer_until_it_is_removed(
    premises: Premises,
) -> None:
    mailbox = await made(premises, acknowledgement=ANSWERS[0]["acknowledgement"])
    await mailbox.write_request(steer(SCOUT))
    await mailbox.write_request(steer(SCOUT, "two"))
    assert (await read(mailbox)).pending == OnePending(steer(SCOUT, "two"))
    said = Acknowledgement(request("two"), accepted=True, at_ms=NOW_MS)
    await mailbox.write_state(replace(SCOUT, acknowledgement=said))
    assert (await read(mailbox)).pending == OnePending(steer(SCOUT))
    await mailbox.remove_request(request("steer"))
    assert (await read(mailbox)).pending == NothingPending()


async def test_unknown_files_mean_nothing_and_go_with_the_mailbox(premises: Premises) -> None:
    mailbox = await made(premises)
    folder = mailbox.folder
    (folder / ".state.json.0123456789ab.tmp").write_bytes(b"{")
    (folder / "result-x.json").write_bytes(b"{")
    (folder / f"result-{TASK}.json.bak").write_bytes(b"{")
    (folder / "folder" / "deep").mkdir(parents=True)
    assert await mailbox.read() == Contents(SCOUT)
    await mailbox.remove()
    assert tree(premises.mailboxes) == {}


async def test_a_request_that_goes_while_it_is_looked_at_was_answered(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = await made(premises)
    await mailbox.write_request(steer(SCOUT))
    path = mailbox.folder / f"request-{steer(SCOUT).request}.json"
    at_listing(monkeypatch, mailbox, path.unlink)
    assert await read(mailbox) == Contents(SCOUT)


async def test_a_look_is_of_one_moment(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of one generation is never shown with the files of the next one."""
    full = await Full.at(premises)
    later = replace(SCOUT, of=replace(SCOUT.of, handle=Handle("later")))
    other = box_of(premises_at(premises.root / "other"))
    await other.write_state(later, creates=True)

    def succeed() -> None:
        full.mailbox.folder.rename(premises.root / "gone")
        other.folder.rename(full.mailbox.folder)

    at_listing(monkeypatch, full.mailbox, succeed)
    assert await read(full.mailbox) == Contents(later)


async def test_a_look_ends_although_the_mailbox_changes_all_the_time(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = await made(premises)
    path, usual = mailbox.folder / "state.json", os.listdir
    looks: list[Path] = []

    def list_and_change(folder: Path) -> list[str]:
        looks.append(folder)
        path.write_bytes(path.read_bytes() + b" ")
        return usual(folder)

    monkeypatch.setattr(os, "listdir", list_and_change)
    assert await mailbox.read() == Contents(SCOUT)
    assert len(looks) == 4


def at_listing(
    monkeypatch: pytest.MonkeyPatch, mailbox: Mailbox, change: Callable[[], object]
) -> None:
    """Change something, once, after the names in a mailbox were read."""
    usual = os.listdir
    left = [change]

    def list_and_change(folder: Path) -> list[str]:
        names = usual(folder)
        if folder == mailbox.folder and left:
            left.pop()()
        return names

    monkeypatch.setattr(os, "listdir", list_and_change)


async def test_what_is_left_of_an_agent_that_is_gone_makes_room(premises: Premises) -> None:
    full = await Full.at(premises)
    folder = full.mailbox.folder
    (folder / "state.json").unlink()
    (folder / f"request-{steer(full.state).request}.json").unlink()
    assert not await full.mailbox.is_occupied()
    await full.mailbox.reset()
    assert tree(folder) == {}


async def test_nothing_makes_room_that_may_be_somebodys(premises: Premises) -> None:
    full = await Full.at(premises)
    before = tree(premises.root)
    await refused(full.mailbox.reset(), Category.AGENT_LABEL_EXISTS)
    assert tree(premises.root) == before
    (full.mailbox.folder / "state.json").unlink()
    assert await full.mailbox.is_occupied()
    with pytest.raises(UnreadableRecordError, match="requests without a state"):
        await full.mailbox.read()
    await refused(full.mailbox.reset(), Category.AGENT_LABEL_EXISTS)


WRITES: list[tuple[str, Callable[[Mailbox], Awaitable[None]]]] = [
    ("herd.state", lambda box: box.write_state(replace(SCOUT, definition="later"))),
    ("herd.request", lambda box: box.write_request(steer(SCOUT, "more"))),
    ("herd.ask", lambda box: box.write_ask(question(SCOUT))),
    ("herd.result", lambda box: box.write_result(result(SCOUT))),
]


@pytest.mark.parametrize(("name", "write"), WRITES)
@pytest.mark.parametrize("step", ["started", "written", "renamed", "durable"])
async def test_a_full_disk_is_told_and_leaves_the_old_record_or_the_new(
    premises: Premises, name: str, write: Callable[[Mailbox], Awaitable[None]], step: str
) -> None:
    mailbox = await made(premises)
    before = tree(mailbox.folder)
    faults.install(f"error:{name}.{step}:1:ENOSPC")
    try:
        error = await refused(write(mailbox), Category.INTERNAL_FAILURE)
    finally:
        faults.install("")
    assert "No space left on device" in str(error)
    failed = tree(mailbox.folder)
    await write(mailbox)
    after = tree(mailbox.folder)
    assert failed == (before if step in ("started", "written") else after)


async def test_a_removal_that_fails_is_told_and_can_be_done_again(premises: Premises) -> None:
    full = await Full.at(premises)
    for point in ("herd.mailbox.emptied", "herd.record.removed"):
        faults.install(f"error:{point}:1:EIO")
        try:
            error = await refused(full.mailbox.remove(), Category.INTERNAL_FAILURE)
        finally:
            faults.install("")
        assert "records of scout: Input/output error" in str(error)
    await full.mailbox.remove()
    assert tree(premises.mailboxes) == {}


async def test_a_change_is_heard_by_its_owner_and_a_request_by_its_agent(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = box_of(premises)
    rung: list[set[str]] = []
    monkeypatch.setattr(premises.signals, "ring", lambda *names: rung.append(set(names)))
    await mailbox.write_state(SCOUT, creates=True)
    await mailbox.write_request(steer(SCOUT))
    await mailbox.write_ask(question(SCOUT))
    await mailbox.write_result(result(SCOUT))
    await mailbox.remove_ask()
    await mailbox.remove()
    owner, agent = SCOUT.of.owner, str(mailbox.folder)
    assert rung == [{owner}, {owner, agent}, {owner}, {owner}, set(), {owner, agent}]


async def test_what_failed_is_heard_too(premises: Premises) -> None:
    mailbox = await made(premises)
    listener = premises.signals.listen(ANYTHING)
    faults.install("error:herd.request.renamed:1:EIO")
    try:
        await refused(mailbox.write_request(steer(SCOUT)), Category.INTERNAL_FAILURE)
    finally:
        faults.install("")
    await listener.wait()
    (mailbox.folder / "state.json").write_bytes(b"{")
    await mailbox.remove()
    await listener.wait()
    assert not mailbox.folder.exists()


async def test_a_request_of_another_generation_is_shown_as_it_is(premises: Premises) -> None:
    mailbox = await made(premises)
    stray: Request = replace(steer(SCOUT), of=replace(SCOUT.of, handle=Handle(uid("else"))))
    await mailbox.write_request(stray)
    assert (await read(mailbox)).pending == OnePending(stray)
