import shutil
from pathlib import Path

import pytest

from engine.system import faults
from tests.support.checkouts import change_three, edit, set_up, stored_state, write
from tests.support.movers import Interrupted
from tests.support.privileges import unprivileged
from tests.support.repos import RepoBuilder
from worktrees.apply import (
    execute,
    load_journal,
    rollback,
)
from worktrees.apply_plan import ConflictsError
from worktrees.apply_recovery import (
    ApplyFailedError,
    FileOutcome,
    IncompleteError,
    RollbackRefusedError,
    carry_out,
)
from worktrees.exchange import mover_for
from worktrees.journal import JournalState

pytestmark = pytest.mark.usefixtures("manner")


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
            await execute(journal, mover=Interrupted(b"edited.txt", before=lambda: edit(setting)))
    finally:
        faults.install("")
    # The file, its folder, the new folder and the edited file; what is to come after them is not.
    assert points.read_text().count("apply.move.started\n") == 4


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
        edit(setting)

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
            await execute(journal, mover=Interrupted(b"edited.txt", before=lambda: edit(setting)))
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
        unprivileged(lambda: carry_out(journal, mover_for(in_one_step=journal.in_one_step)))
    repo.root.chmod(0o700)
    assert setting.now() == setting.before
