import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from engine.core.changes import Change, ChangeStatus
from engine.core.errors import ConflictError, ExternalError, UsageError
from engine.core.ids import BlobId
from tests.support.applied import verify_applied
from tests.support.checkouts import (
    Setting,
    build_many,
    change_many,
    change_three,
    change_two,
    set_up,
    stored_state,
    write,
)
from tests.support.movers import Interrupted, Refusing
from tests.support.repos import RepoBuilder
from worktrees.apply import (
    execute,
    load_journal,
    resume,
    rollback,
    settle,
)
from worktrees.apply_plan import ConflictsError
from worktrees.apply_recovery import (
    FileAnswer,
    FileOutcome,
)
from worktrees.exchange import NoExchangeError
from worktrees.hygiene import GitError
from worktrees.journal import JournalState

pytestmark = pytest.mark.usefixtures("manner")


@pytest.fixture
def many(tmp_path: Path) -> RepoBuilder:
    """A checkout with one file for each way in which a path can change."""
    return build_many(tmp_path / "many")


async def assert_untouched(setting: Setting) -> None:
    assert setting.now() == setting.before
    assert await load_journal(setting.folder) is None
    assert list(setting.folder.glob("*")) == []


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
        FileAnswer(
            change.path,
            FileOutcome.REMOVED if change.status is ChangeStatus.ADDED else FileOutcome.RESTORED,
        )
        for change in setting.changes
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
    with pytest.raises(NoExchangeError, match="nor give a file a second name"):
        await setting.prepare(movers=(Refusing(errno.EINVAL),))
    await assert_untouched(setting)


async def test_a_disk_that_fails_while_preparing_is_reported(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    with pytest.raises(ExternalError, match=r"could not be prepared: No space left .* \(disk\)"):
        await setting.prepare(movers=(Refusing(errno.ENOSPC),))
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


def _other_file_system(than: Path) -> Path:
    """Return a folder of another file system: of that in memory, or of a disk."""
    places = (Path("/dev/shm"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 (what each Linux has)
    return next(place for place in places if place.stat().st_dev != than.stat().st_dev)


async def test_slots_lie_beside_a_checkout_on_a_file_system_of_its_own(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    setting = await set_up(repo, change_three)
    elsewhere = _other_file_system(tmp_path) / f"pinata-test-{os.getpid()}"
    setting = setting.with_folder(elsewhere)
    try:
        beside = _names_in(tmp_path)
        journal = await execute(await setting.prepare())
        assert journal.slots.parent.parent == tmp_path
        assert setting.now() == setting.after
        await rollback(setting.repo, journal)
        assert setting.now() == setting.before
        assert _names_in(tmp_path) == beside
    finally:
        shutil.rmtree(elsewhere)
