import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from engine.core.changes import Change, ChangeStatus
from engine.core.errors import ConflictError, CorruptionError, ExternalError, UsageError
from engine.core.ids import BlobId
from engine.system import faults
from tests.support.checkouts import Setting, build_many, change_many, set_up, write
from tests.support.movers import Died, Interrupted, Refusing, die
from tests.support.privileges import unprivileged
from tests.support.repos import RepoBuilder
from worktrees.apply import (
    discard_originals,
    execute,
    load_journal,
    resume,
    rollback,
    settle,
    verify_applied,
)
from worktrees.apply_plan import ConflictsError
from worktrees.apply_recovery import (
    ApplyFailedError,
    FileAnswer,
    FileOutcome,
    IncompleteError,
    RollbackRefusedError,
    carry_out,
)
from worktrees.exchange import KernelMover, NoExchangeError
from worktrees.hygiene import GitError
from worktrees.journal import Journal, JournalState


@pytest.fixture
def many(tmp_path: Path) -> RepoBuilder:
    """A checkout with one file for each way in which a path can change."""
    return build_many(tmp_path / "many")


def change_two(root: Path) -> None:
    write(root / "edited.txt", b"after\n")
    write(root / "kept.txt", b"changed\n")


def change_three(root: Path) -> None:
    """Delete a file and its folder, replace one, add one in a folder of its own."""
    shutil.rmtree(root / "folder")
    write(root / "edited.txt", b"after\n")
    write(root / "new/added.txt", b"added\n")


async def assert_untouched(setting: Setting) -> None:
    assert setting.now() == setting.before
    assert await load_journal(setting.folder) is None
    await discard_originals(setting.folder)
    assert list(setting.folder.glob("*")) == []


async def interrupted(setting: Setting, name: bytes) -> Journal:
    """Die just before `name` is moved, and return the journal that was left."""
    journal = await setting.prepare()
    with pytest.raises(Died):
        await execute(journal, mover=Interrupted(name, before=die))
    left = await load_journal(setting.folder)
    assert left == journal
    return left


async def stored_state(setting: Setting) -> JournalState:
    journal = await load_journal(setting.folder)
    assert journal is not None
    return journal.state


async def test_every_kind_of_change_arrives_and_nothing_else_is_touched(many: RepoBuilder) -> None:
    setting = await set_up(many, change_many)
    index, head = many.facts()["index"], many.ask("rev-parse", "HEAD")
    journal = await execute(await setting.prepare())
    assert setting.now() == setting.after
    assert journal.state is JournalState.VERIFYING
    assert await load_journal(setting.folder) == journal
    assert await verify_applied(setting.repo, journal) == ()
    assert (many.facts()["index"], many.ask("rev-parse", "HEAD")) == (index, head)


async def test_rollback_restores_bytes_modes_and_listing_even_after_a_gc(many: RepoBuilder) -> None:
    setting = await set_up(many, change_many)
    journal = await settle(await execute(await setting.prepare()), JournalState.VERIFIED)
    many.git("gc", "--quiet", "--prune=now")
    answers = await rollback(setting.repo, journal)
    assert setting.now() == setting.before
    assert answers == tuple(
        FileAnswer(change.path, FileOutcome.RESTORED) for change in setting.changes
    )
    assert await stored_state(setting) is JournalState.ROLLED_BACK
    assert not journal.slots.exists()


async def test_a_second_rollback_is_refused_and_a_new_apply_starts_afresh(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    first = await execute(await setting.prepare())
    await rollback(setting.repo, first)
    rolled_back = await load_journal(setting.folder)
    assert rolled_back is not None
    with pytest.raises(ConflictError, match="rolled back already"):
        await rollback(setting.repo, rolled_back)
    with pytest.raises(ConflictError, match="is rolled back and cannot be completed"):
        await resume(setting.repo, rolled_back)
    rolled_back.slots.mkdir()  # as if removing them had been cut short
    second = await execute(await setting.prepare())
    assert (first.number, second.number) == (1, 2)
    assert setting.now() == setting.after
    assert setting.folder.joinpath("journal-1.json").exists()
    assert not first.slots.exists()


async def test_a_second_integration_is_refused_while_one_is_in_force(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    await execute(await setting.prepare())
    with pytest.raises(ConflictError, match="is verifying; complete it or roll it back first"):
        await setting.prepare()


async def test_a_file_edited_since_the_start_is_named_and_nothing_is_written(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_two)
    repo.write("edited.txt", "mine\n")
    before = setting.now()
    with pytest.raises(ConflictsError, match=r"edited\.txt has changed since") as caught:
        await setting.prepare()
    assert caught.value.paths == (b"edited.txt",)
    assert setting.now() == before
    assert await load_journal(setting.folder) is None


async def test_commits_and_line_ends_that_git_does_not_see_are_no_conflict(
    repo: RepoBuilder,
) -> None:
    repo.write(".gitattributes", "*.txt text\n")
    repo.commit("attributes")
    setting = await set_up(repo, change_two)
    repo.write("other.txt", "unrelated\n")
    repo.commit("an unrelated commit")
    repo.write("edited.txt", "before\r\n")
    journal = await execute(await setting.prepare())
    assert repo.root.joinpath("edited.txt").read_bytes() == b"after\n"
    await rollback(setting.repo, journal)
    assert repo.root.joinpath("edited.txt").read_bytes() == b"before\r\n"


def _take_place(repo: RepoBuilder) -> None:
    repo.write("new/added.txt", "added\n")


def _be_an_ignored_folder(repo: RepoBuilder) -> None:
    repo.write("new/added.txt/x.ignored", "x\n")


def _be_behind_a_file(repo: RepoBuilder) -> None:
    repo.write("new", "file\n")


def _be_behind_a_link(repo: RepoBuilder) -> None:
    elsewhere = repo.root.with_name("elsewhere")
    elsewhere.mkdir()
    repo.root.joinpath("new").symlink_to(elsewhere)


def _be_in_another_repository(repo: RepoBuilder) -> None:
    repo.git("init", "--quiet", "new")


def _lose_a_file(repo: RepoBuilder) -> None:
    shutil.rmtree(repo.root / "folder")


def _lose_the_type(repo: RepoBuilder) -> None:
    repo.root.joinpath("edited.txt").unlink()
    repo.write("edited.txt/x.ignored", "mine\n")


def _make_executable(repo: RepoBuilder) -> None:
    repo.root.joinpath("edited.txt").chmod(0o755)


@pytest.mark.parametrize(
    ("meddle", "said"),
    [
        (_take_place, "new/added.txt is there already"),
        (_be_an_ignored_folder, "new/added.txt is a folder that holds something else"),
        (_be_behind_a_file, "new/added.txt lies behind new, which is no folder"),
        (_be_behind_a_link, "new/added.txt lies behind new, which is no folder"),
        (_be_in_another_repository, "new/added.txt lies in another repository, new"),
        (_lose_a_file, "folder/inner.txt is not there any more"),
        (_lose_the_type, "edited.txt is not there any more"),
        (_make_executable, "edited.txt has changed since the run started"),
    ],
)
async def test_what_is_in_the_way_is_named_and_nothing_is_written(
    repo: RepoBuilder, meddle: Callable[[RepoBuilder], None], said: str
) -> None:
    setting = await set_up(repo, change_three)
    meddle(repo)
    with pytest.raises(ConflictsError) as caught:
        await setting.prepare()
    assert str(caught.value) == f"the checkout is in the way; nothing was written: {said}"
    assert not repo.root.joinpath("new/added.txt").is_file() or meddle is _take_place
    assert await load_journal(setting.folder) is None
    assert list(setting.folder.glob("*")) == []


async def test_a_message_names_twenty_conflicts_and_counts_the_others(repo: RepoBuilder) -> None:
    def add(root: Path) -> None:
        for number in range(25):
            write(root / f"many/{number:02}", b"x\n")

    setting = await set_up(repo, add)
    write(repo.root / "many", b"in the way\n")
    with pytest.raises(ConflictsError, match=r"many/19 lies .*; and 5 more$") as caught:
        await setting.prepare()
    assert len(caught.value.paths) == 25


async def test_a_folder_that_holds_something_else_is_not_replaced_by_a_file(
    many: RepoBuilder,
) -> None:
    setting = await set_up(many, change_many)
    many.write("was-folder/b/x.ignored", "mine\n")
    with pytest.raises(ConflictsError, match="was-folder is a folder that holds something else"):
        await setting.prepare()


async def test_a_folder_that_still_holds_something_stays(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_three)
    repo.write("folder/x.ignored", "mine\n")
    before = setting.now()
    journal = await execute(await setting.prepare())
    assert repo.root.joinpath("folder/x.ignored").exists()
    await rollback(setting.repo, journal)
    assert setting.now() == before


def _change(path: bytes, *, old: str = "100644", new: str = "100644") -> Change:
    zero, one, two = BlobId("0" * 40), BlobId("1" * 40), BlobId("2" * 40)
    blobs = zero if old == "000000" else one, zero if new == "000000" else two
    return Change(path, ChangeStatus.MODIFIED, old, new, *blobs)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([_change(b"../x")], "../x is not a path inside a checkout"),
        ([_change(b"a//x")], "a//x is not a path inside a checkout"),
        ([_change(b"a/.GIT/x")], "a/.GIT/x is not a path inside a checkout"),
        ([_change(b"x"), _change(b"x")], "x is changed twice"),
        ([_change(b"x", new="160000")], "x is a submodule"),
        ([_change(b"x", old="000000", new="000000")], "x is listed as a change"),
        ([_change(b"x"), _change(b"x/y")], "x/y lies below a path that becomes a file"),
    ],
)
async def test_changes_that_fit_no_checkout_are_refused(
    repo: RepoBuilder, changes: list[Change], said: str
) -> None:
    setting = await set_up(repo, change_two)
    with pytest.raises(UsageError) as caught:
        await setting.prepare(changes)
    assert str(caught.value).startswith(said)
    assert not setting.folder.exists()


async def test_attributes_that_come_with_the_change_count_for_its_files(repo: RepoBuilder) -> None:
    repo.write("folder/.gitattributes", "*.bat text eol=crlf\n")
    repo.commit("attributes that stay")

    def change(root: Path) -> None:
        write(root / ".gitattributes", b"*.txt text eol=crlf\n")
        write(root / "edited.txt", b"after\r\n")
        write(root / "folder/run.bat", b"run\r\n")

    setting = await set_up(repo, change)
    journal = await execute(await setting.prepare())
    assert setting.now() == setting.after
    assert await verify_applied(setting.repo, journal) == ()


async def test_a_path_that_is_on_disk_what_it_shall_become_is_not_moved(repo: RepoBuilder) -> None:
    repo.git("config", "core.fileMode", "false")
    repo.root.joinpath("edited.txt").chmod(0o755)
    setting = await set_up(repo, change_two)
    mode = [_change_mode(change) for change in setting.changes if change.path == b"edited.txt"]
    journal = await execute(await setting.prepare(mode))
    assert journal.entries == ()
    assert setting.now() == setting.before


def _change_mode(change: Change) -> Change:
    return Change(
        change.path, ChangeStatus.MODIFIED, "100644", "100755", change.old_blob, change.old_blob
    )


async def test_executable_bits_go_with_the_mode_and_the_others_stay(repo: RepoBuilder) -> None:
    repo.root.joinpath("edited.txt").chmod(0o750)
    repo.commit("executable")

    def change(root: Path) -> None:
        root.joinpath("edited.txt").chmod(0o640)

    setting = await set_up(repo, change)
    await execute(await setting.prepare())
    assert setting.now() == setting.after


async def test_a_failing_filter_stops_the_preparation_and_leaves_nothing(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    repo.git("config", "filter.broken.clean", "cat")
    repo.git("config", "filter.broken.smudge", "false")
    repo.git("config", "filter.broken.required", "true")
    repo.place(".git/info/attributes").write_text("kept.txt filter=broken\n")
    with pytest.raises(GitError):
        await setting.prepare()
    await assert_untouched(setting)


async def test_a_cancelled_preparation_leaves_nothing(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    repo.git("config", "filter.slow.smudge", "sleep 60; cat")
    repo.place(".git/info/attributes").write_text("kept.txt filter=slow\n")
    with trio.move_on_after(1) as scope:
        await setting.prepare()
    assert scope.cancelled_caught
    await assert_untouched(setting)


async def test_a_cancelled_scope_does_not_stop_an_apply_half_way(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_three)
    journal = await setting.prepare()
    with trio.CancelScope() as scope:
        cancel = Interrupted(b"edited.txt", before=lambda: trio.from_thread.run_sync(scope.cancel))
        await execute(journal, mover=cancel)
    assert setting.now() == setting.after
    assert await stored_state(setting) is JournalState.VERIFYING


async def test_files_that_cannot_be_exchanged_are_refused_before_any_write(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_two)
    with pytest.raises(NoExchangeError, match="cannot exchange two files in one step"):
        await setting.prepare(mover=Refusing(errno.EINVAL))
    await assert_untouched(setting)


async def test_a_disk_that_fails_while_preparing_is_reported(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    with pytest.raises(ExternalError, match=r"could not be prepared: No space left .* \(disk\)"):
        await setting.prepare(mover=Refusing(errno.ENOSPC))
    await assert_untouched(setting)


async def test_a_file_edited_while_it_is_staged_is_noticed(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_three)
    repo.git("config", "filter.edits.smudge", f"echo mine >{repo.root}/edited.txt; cat")
    repo.git("config", "filter.edits.clean", "cat")
    repo.place(".git/info/attributes").write_text("added.txt filter=edits\n")
    with pytest.raises(ConflictsError, match=r"edited\.txt (was edited just now|has changed)"):
        await setting.prepare()
    assert await load_journal(setting.folder) is None


async def test_a_thousand_paths_in_as_many_folders_need_few_descriptors(repo: RepoBuilder) -> None:
    def change(root: Path) -> None:
        for number in range(40):
            write(root / f"wide/{number}/file", b"x\n")

    setting = await set_up(repo, change)
    journal = await execute(await setting.prepare())
    assert setting.now() == setting.after
    await rollback(setting.repo, journal)
    assert setting.now() == setting.before


def _names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_slots_lie_beside_a_checkout_on_a_file_system_of_its_own(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    setting = await set_up(repo, change_three)
    elsewhere = Path("/dev/shm") / f"pinata-test-{os.getpid()}"  # noqa: S108 (another file system)
    setting = setting.with_folder(elsewhere)
    try:
        beside = _names_in(tmp_path)
        journal = await execute(await setting.prepare())
        assert journal.slots.parent.parent == tmp_path
        assert setting.now() == setting.after
        await rollback(setting.repo, journal)
        assert setting.now() == setting.before
        assert _names_in(tmp_path) == beside
        await execute(await setting.prepare())
        await discard_originals(elsewhere)
        assert _names_in(tmp_path) == beside
    finally:
        shutil.rmtree(elsewhere)


# What happens while changes are applied.


def _edit(setting: Setting) -> None:
    setting.repo.root.joinpath("edited.txt").write_bytes(b"mine\n")


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_edit_while_applying_is_put_back_with_everything_else(
    repo: RepoBuilder, moment: str
) -> None:
    setting = await set_up(repo, change_three)
    journal = await setting.prepare()
    with repo.root.joinpath("edited.txt").open("r+b", buffering=0) as editor:

        def edit() -> None:
            editor.write(b"mine")

        mover = (
            Interrupted(b"edited.txt", before=edit)
            if moment == "before"
            else Interrupted(b"added.txt", after=edit)
        )
        with pytest.raises(ConflictsError) as caught:
            await execute(journal, mover=mover)
    assert caught.value.paths == (b"edited.txt",)
    mode, _ = setting.before["edited.txt"]
    assert setting.now() == {**setting.before, "edited.txt": (mode, b"minere\n")}
    assert await stored_state(setting) is JournalState.ROLLED_BACK


async def test_an_edit_stops_the_apply_at_once(repo: RepoBuilder, tmp_path: Path) -> None:
    setting = await set_up(repo, change_three)
    journal = await setting.prepare()
    points = tmp_path / "points"
    faults.install(f"record:{points}")
    try:
        with pytest.raises(ConflictsError):
            await execute(journal, mover=Interrupted(b"edited.txt", before=lambda: _edit(setting)))
    finally:
        faults.install("")
    # The file, its folder, the new folder and the edited file; what is to come after them is not.
    assert points.read_text().count("apply.step.started\n") == 4


async def test_a_file_removed_while_applying_is_a_conflict(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_three)
    journal = await setting.prepare()
    remove = Interrupted(b"edited.txt", before=repo.root.joinpath("edited.txt").unlink)
    with pytest.raises(ConflictsError, match=r"edited\.txt was edited"):
        await execute(journal, mover=remove)
    assert setting.now() == {k: v for k, v in setting.before.items() if k != "edited.txt"}


async def test_a_file_that_takes_a_place_while_applying_is_a_conflict(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_three)
    journal = await setting.prepare()
    place = repo.root / "new/added.txt"
    with pytest.raises(ConflictsError, match=r"new/added\.txt was edited"):
        await execute(
            journal, mover=Interrupted(b"added.txt", before=lambda: write(place, b"mine\n"))
        )
    assert place.read_bytes() == b"mine\n"
    assert repo.root.joinpath("edited.txt").read_bytes() == b"before\n"
    assert repo.root.joinpath("folder/inner.txt").exists()


async def test_a_folder_that_is_made_a_link_while_applying_is_never_followed(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    elsewhere = repo.root.with_name("elsewhere")
    elsewhere.mkdir()
    journal = await setting.prepare()

    def link() -> None:
        repo.root.joinpath("new").symlink_to(elsewhere)

    with pytest.raises(ConflictsError, match=r"new/added\.txt was edited"):
        await execute(journal, mover=Interrupted(b"inner.txt", before=link))
    assert list(elsewhere.iterdir()) == []
    assert repo.root.joinpath("folder/inner.txt").exists()


async def test_a_folder_that_cannot_be_made_is_a_conflict(repo: RepoBuilder) -> None:
    def change(root: Path) -> None:
        write(root / "folder/inner.txt", b"after\n")
        write(root / "new/deep/added.txt", b"added\n")
        root.joinpath("deleted.txt").unlink()

    setting = await set_up(repo, change)
    journal = await setting.prepare()
    mover = Interrupted(b"deleted.txt", before=lambda: write(repo.root / "new", b"mine\n"))
    with pytest.raises(ConflictsError, match="new/deep was edited"):
        await execute(journal, mover=mover)
    assert repo.root.joinpath("new").read_bytes() == b"mine\n"
    assert repo.root.joinpath("deleted.txt").exists()


async def test_what_is_edited_while_it_is_taken_back_is_left_and_reported(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    journal = await setting.prepare()
    root = repo.root

    def conflict_and_edits() -> None:
        write(root / "new/added.txt", b"mine\n")
        write(root / "edited.txt", b"mine too\n")
        write(root / "folder", b"and mine\n")

    with pytest.raises(IncompleteError) as caught:
        await execute(journal, mover=Interrupted(b"added.txt", before=conflict_and_edits))
    assert root.joinpath("edited.txt").read_bytes() == b"mine too\n"
    assert await stored_state(setting) is JournalState.ROLLING_BACK
    assert "not everything was put back" in str(caught.value)


@pytest.mark.parametrize("place", ["new/added.txt", "edited.txt"])
async def test_an_edit_between_two_looks_of_a_rollback_stays(repo: RepoBuilder, place: str) -> None:
    setting = await set_up(repo, change_three)
    journal = await execute(await setting.prepare())
    name = place.rpartition("/")[2].encode()
    edit = Interrupted(name, before=lambda: repo.write(place, "mine\n"))
    with pytest.raises(IncompleteError) as caught:
        await rollback(setting.repo, journal, mover=edit)
    assert caught.value.paths == (place.encode(),)
    assert repo.root.joinpath(place).read_bytes() == b"mine\n"
    assert await stored_state(setting) is JournalState.ROLLING_BACK
    stored = await load_journal(setting.folder)
    assert stored is not None
    with pytest.raises(RollbackRefusedError):
        await rollback(setting.repo, stored)
    repo.write(place, setting.after[place][1])
    await rollback(setting.repo, stored)
    assert setting.now() == setting.before


async def test_a_place_taken_during_a_rollback_stays(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_three)
    journal = await execute(await setting.prepare())
    take = Interrupted(b"inner.txt", before=lambda: repo.write("folder/inner.txt", "mine\n"))
    with pytest.raises(IncompleteError) as caught:
        await rollback(setting.repo, journal, mover=take)
    assert caught.value.paths == (b"folder/inner.txt",)
    assert repo.root.joinpath("folder/inner.txt").read_bytes() == b"mine\n"


async def test_what_was_moved_comes_back_even_when_the_journal_cannot_be_written(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    journal = await setting.prepare()
    away = setting.folder.with_name("away")

    def lose_the_journal() -> None:
        setting.folder.rename(away)
        _edit(setting)

    with pytest.raises(ConflictsError, match=r"edited\.txt was edited"):
        await execute(journal, mover=Interrupted(b"edited.txt", before=lose_the_journal))
    away.rename(setting.folder)
    mode, _ = setting.before["edited.txt"]
    assert setting.now() == {**setting.before, "edited.txt": (mode, b"mine\n")}
    assert await load_journal(setting.folder) == journal


async def test_what_could_not_be_put_back_is_reported_and_rollback_goes_on(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    journal = await setting.prepare()

    def fail_twice() -> None:
        faults.install("error:apply.undo.started:2:EIO")
        repo.write("new/added.txt", "mine\n")

    try:
        with pytest.raises(IncompleteError, match="Input/output error; not everything was put"):
            await execute(journal, mover=Interrupted(b"added.txt", before=fail_twice))
    finally:
        faults.install("")
    assert await stored_state(setting) is JournalState.ROLLING_BACK
    stored = await load_journal(setting.folder)
    assert stored is not None
    repo.root.joinpath("new/added.txt").unlink()
    await rollback(setting.repo, stored)
    assert setting.now() == setting.before


async def test_a_rollback_in_the_same_call_that_cannot_be_recorded_is_still_a_whole_one(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    journal = await setting.prepare()
    faults.install("error:journal.rolled_back.started:1:ENOSPC")
    try:
        with pytest.raises(ConflictsError):
            await execute(journal, mover=Interrupted(b"edited.txt", before=lambda: _edit(setting)))
    finally:
        faults.install("")
    assert await stored_state(setting) is JournalState.ROLLING_BACK
    repo.write("edited.txt", "before\n")
    assert setting.now() == setting.before
    stored = await load_journal(setting.folder)
    assert stored is not None
    answers = await rollback(setting.repo, stored)
    assert {answer.outcome for answer in answers} == {FileOutcome.ALREADY}


async def test_a_folder_that_cannot_be_removed_undoes_the_apply(repo: RepoBuilder) -> None:
    def change(root: Path) -> None:
        shutil.rmtree(root / "folder")

    setting = await set_up(repo, change)
    journal = await setting.prepare()
    repo.root.chmod(0o500)
    with pytest.raises(ApplyFailedError, match="Permission denied"):
        unprivileged(lambda: carry_out(journal, KernelMover()))
    repo.root.chmod(0o700)
    assert setting.now() == setting.before


# After a crash, or when asked again.


async def test_an_interrupted_apply_is_completed_by_the_next_call(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    journal = await interrupted(setting, b"kept.txt")
    assert repo.root.joinpath("edited.txt").read_bytes() == b"after\n"
    assert repo.root.joinpath("kept.txt").read_bytes() == b"kept\n"
    assert (await resume(setting.repo, journal)).state is JournalState.VERIFYING
    assert setting.now() == setting.after


async def test_an_interrupted_apply_with_a_file_edited_since_is_left_alone(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_two)
    journal = await interrupted(setting, b"kept.txt")
    repo.write("kept.txt", "mine\n")
    before = setting.now()
    with pytest.raises(ConflictsError, match=r"kept\.txt was edited since"):
        await resume(setting.repo, journal)
    with pytest.raises(RollbackRefusedError) as caught:
        await rollback(setting.repo, journal)
    assert caught.value.answers == (
        FileAnswer(b"edited.txt", FileOutcome.KEPT),
        FileAnswer(b"kept.txt", FileOutcome.EDITED),
    )
    assert setting.now() == before
    assert await load_journal(setting.folder) == journal


async def test_rolling_back_an_interrupted_apply_restores_what_was_moved(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    journal = await interrupted(setting, b"edited.txt")
    assert await rollback(setting.repo, journal) == (
        FileAnswer(b"edited.txt", FileOutcome.ALREADY),
        FileAnswer(b"folder/inner.txt", FileOutcome.RESTORED),
        FileAnswer(b"new/added.txt", FileOutcome.ALREADY),
    )
    assert setting.now() == setting.before


async def test_an_edit_taken_away_just_before_a_crash_comes_back_by_rollback(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_two)
    journal = await setting.prepare()
    mover = Interrupted(b"edited.txt", before=lambda: _edit(setting), after=die)
    with pytest.raises(Died):
        await execute(journal, mover=mover)
    with pytest.raises(ConflictsError, match=r"edited\.txt was edited while the changes were"):
        await resume(setting.repo, journal)
    await rollback(setting.repo, journal)
    assert repo.root.joinpath("edited.txt").read_bytes() == b"mine\n"


async def test_a_file_deleted_by_hand_before_its_turn_stays_the_users_decision(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    journal = await interrupted(setting, b"inner.txt")
    repo.root.joinpath("folder/inner.txt").unlink()
    for call in (resume, rollback):
        with pytest.raises(ConflictsError, match=r"folder/inner\.txt was removed by hand"):
            await call(setting.repo, journal)


async def test_a_resumed_apply_that_fails_goes_back_to_where_it_was_interrupted(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    journal = await interrupted(setting, b"edited.txt")
    before = setting.now()
    faults.install("error:apply.step.done:2:ENOSPC")
    try:
        with pytest.raises(ApplyFailedError):
            await resume(setting.repo, journal)
    finally:
        faults.install("")
    assert setting.now() == before
    with pytest.raises(ConflictsError):
        await resume(
            setting.repo, journal, mover=Interrupted(b"edited.txt", before=lambda: _edit(setting))
        )
    repo.write("edited.txt", "before\n")
    assert setting.now() == before
    assert await load_journal(setting.folder) == journal
    await resume(setting.repo, journal)
    assert setting.now() == setting.after


async def test_an_added_place_taken_after_a_crash_is_refused(many: RepoBuilder) -> None:
    setting = await set_up(many, change_many)
    journal = await interrupted(setting, b"clean.txt")
    many.write("was-file/inner/mine", "mine\n")
    with pytest.raises(ConflictsError, match="was-file/inner is a folder that holds something"):
        await resume(setting.repo, journal)
    with pytest.raises(RollbackRefusedError, match="was-file is a folder that holds something"):
        await rollback(setting.repo, journal)


async def test_a_folder_lost_after_a_crash_is_refused(repo: RepoBuilder) -> None:
    def change(root: Path) -> None:
        root.joinpath("folder/inner.txt").unlink()

    repo.write("folder/mine.ignored", "mine\n")
    setting = await set_up(repo, change)
    journal = await execute(await setting.prepare())
    shutil.rmtree(repo.root / "folder")
    with pytest.raises(RollbackRefusedError, match=r"folder/inner\.txt has lost its folder folder"):
        await rollback(setting.repo, journal)


async def test_a_file_added_into_a_new_folder_keeps_the_folder_on_rollback(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    journal = await execute(await setting.prepare())
    repo.write("new/mine.txt", "mine\n")
    await rollback(setting.repo, journal)
    assert repo.root.joinpath("new/mine.txt").read_bytes() == b"mine\n"
    assert not repo.root.joinpath("new/added.txt").exists()


async def test_an_applied_integration_called_again_rewrites_nothing(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_three)
    journal = await settle(await execute(await setting.prepare()), JournalState.VERIFIED)
    inode = repo.root.joinpath("edited.txt").stat().st_ino
    again = await resume(setting.repo, journal)
    assert again.state is JournalState.VERIFYING
    assert repo.root.joinpath("edited.txt").stat().st_ino == inode
    repo.write("edited.txt", "before\n")
    with pytest.raises(ConflictsError, match=r"edited\.txt was put back by hand"):
        await resume(setting.repo, again)
    answers = await rollback(setting.repo, again)
    assert answers[0] == FileAnswer(b"edited.txt", FileOutcome.ALREADY)
    assert setting.now() == setting.before


async def test_head_or_index_moved_since_refuse_completion_and_rollback(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    journal = await execute(await setting.prepare())
    repo.write("unrelated.txt", "x\n")
    repo.git("add", "unrelated.txt")
    for call in (resume, rollback):
        with pytest.raises(ConflictError, match="the index has changed"):
            await call(setting.repo, journal)
    repo.git("commit", "--quiet", "--message", "by the user")
    for call in (resume, rollback):
        with pytest.raises(ConflictError, match="HEAD has changed"):
            await call(setting.repo, journal)
    assert await verify_applied(setting.repo, journal) == ()


async def test_a_checkout_that_was_moved_is_refused(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    journal = await execute(await setting.prepare())
    elsewhere = replace(setting.repo, root=setting.repo.root.with_name("moved"))
    for call in (resume, rollback):
        with pytest.raises(ConflictError, match="move the checkout back"):
            await call(elsewhere, journal)


async def test_one_edited_file_keeps_a_rollback_from_touching_the_other(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    journal = await execute(await setting.prepare())
    repo.write("kept.txt", "changed, by hand\n")
    before = setting.now()
    with pytest.raises(RollbackRefusedError, match=r"kept\.txt was edited since"):
        await rollback(setting.repo, journal)
    assert setting.now() == before
    assert await stored_state(setting) is JournalState.VERIFYING


async def test_damaged_or_missing_originals_are_reported_and_nothing_is_done(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_two)
    journal = await execute(await setting.prepare())
    journal.slots.joinpath("0").write_bytes(b"damaged\n")
    with pytest.raises(CorruptionError, match=r"the saved original of edited\.txt"):
        await rollback(setting.repo, journal)
    journal.slots.joinpath("0").unlink()
    with pytest.raises(CorruptionError, match=r"the saved original of edited\.txt"):
        await rollback(setting.repo, journal)
    shutil.rmtree(journal.slots)
    with pytest.raises(CorruptionError, match="saved originals of the integration are gone"):
        await rollback(setting.repo, journal)
    assert setting.now() == setting.after


async def test_verification_names_every_path_that_is_not_as_planned(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_three)
    journal = await execute(await setting.prepare())
    repo.write("edited.txt", "mine\n")
    repo.write("folder/inner.txt", "back again\n")
    shutil.rmtree(repo.root / "new")
    repo.root.joinpath("new").symlink_to(repo.root / "folder")
    write(repo.root / "folder/added.txt", b"added\n")
    assert await verify_applied(setting.repo, journal) == (
        b"edited.txt",
        b"folder/inner.txt",
        b"new/added.txt",
    )
