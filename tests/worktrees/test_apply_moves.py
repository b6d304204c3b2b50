"""What becomes of a file that is absent for a moment while it is replaced by steps."""

import os
from pathlib import Path

import pytest

from engine.system import faults
from tests.support.checkouts import (
    Setting,
    change_three,
    change_two,
    set_up,
    stored_state,
    write,
)
from tests.support.movers import Died, InTheGap, die, forget_renameat2
from tests.support.repos import RepoBuilder
from worktrees.apply import execute, load_journal, resume, rollback
from worktrees.apply_plan import ConflictsError
from worktrees.apply_recovery import (
    ApplyFailedError,
    FileAnswer,
    FileOutcome,
    IncompleteError,
    RollbackRefusedError,
)
from worktrees.journal import Journal, JournalState


@pytest.fixture(autouse=True)
def _in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_renameat2(monkeypatch)


async def cut_short(setting: Setting) -> Journal:
    """Die while edited.txt is absent, and return the journal that was left."""
    journal = await setting.prepare()
    assert not journal.in_one_step
    with pytest.raises(Died):
        await execute(journal, mover=InTheGap(die))
    assert not setting.repo.root.joinpath("edited.txt").exists()
    left = await load_journal(setting.folder)
    assert left == journal
    return left


async def test_a_file_written_while_it_was_away_stays_and_its_old_content_is_kept(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_two)
    journal = await setting.prepare()
    place = repo.root / "edited.txt"
    with pytest.raises(IncompleteError) as caught:
        await execute(journal, mover=InTheGap(lambda: place.write_bytes(b"mine\n")))
    assert caught.value.paths == (b"edited.txt",)
    assert place.read_bytes() == b"mine\n"
    assert await stored_state(setting) is JournalState.ROLLING_BACK
    stored = await load_journal(setting.folder)
    assert stored is not None
    with pytest.raises(RollbackRefusedError, match=r"edited\.txt was edited since"):
        await rollback(setting.repo, stored)
    place.unlink()
    await rollback(setting.repo, stored)
    assert setting.now() == setting.before


@pytest.mark.parametrize("way", ["completed", "taken back"])
async def test_an_apply_that_died_while_a_file_was_away_can_be(repo: RepoBuilder, way: str) -> None:
    setting = await set_up(repo, change_three)
    journal = await cut_short(setting)
    if way == "completed":
        await resume(setting.repo, journal)
        assert setting.now() == setting.after
    answers = await rollback(setting.repo, journal)
    assert FileAnswer(b"edited.txt", FileOutcome.RESTORED) in answers
    assert setting.now() == setting.before


async def test_a_file_put_back_by_hand_after_such_a_death_is_the_users_decision(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_two)
    journal = await cut_short(setting)
    write(repo.root / "edited.txt", *content_and_mode(setting, "edited.txt"))
    with pytest.raises(ConflictsError, match=r"edited\.txt was put back by hand"):
        await resume(setting.repo, journal)
    answers = await rollback(setting.repo, journal)
    assert answers[0] == FileAnswer(b"edited.txt", FileOutcome.ALREADY)
    assert setting.now() == setting.before


def content_and_mode(setting: Setting, path: str) -> tuple[bytes, int]:
    mode, content = setting.before[path]
    return content, mode & 0o777


async def test_the_folder_of_an_absent_file_that_is_gone_refuses_both(repo: RepoBuilder) -> None:
    def change(root: Path) -> None:
        write(root / "folder/inner.txt", b"after\n")

    setting = await set_up(repo, change)
    journal = await setting.prepare()
    with pytest.raises(Died):
        await execute(journal, mover=InTheGap(die))
    repo.root.joinpath("folder").rmdir()
    for call in (resume, rollback):
        with pytest.raises(ConflictsError, match=r"folder/inner\.txt has lost its folder"):
            await call(setting.repo, journal)
    repo.root.joinpath("folder").mkdir()
    await rollback(setting.repo, journal)
    assert repo.root.joinpath("folder/inner.txt").read_bytes() == b"inner\n"


async def test_an_edit_taken_away_just_before_such_a_death_comes_back_by_rollback(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_two)
    journal = await setting.prepare()
    repo.write("edited.txt", "mine\n")
    with pytest.raises(Died):
        await execute(journal, mover=InTheGap(die))
    with pytest.raises(ConflictsError, match=r"edited\.txt was edited while the changes were"):
        await resume(setting.repo, journal)
    await rollback(setting.repo, journal)
    assert repo.root.joinpath("edited.txt").read_bytes() == b"mine\n"


async def test_an_edit_taken_away_by_a_rollback_that_died_comes_back_and_stays(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_two)
    journal = await execute(await setting.prepare())
    place = repo.root / "kept.txt"

    class EditedThenDead(InTheGap):
        def swap(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
            place.write_bytes(b"mine\n")
            super().swap(folder, name, slots, slot)

    with pytest.raises(Died):
        await rollback(setting.repo, journal, mover=EditedThenDead(die))
    stored = await load_journal(setting.folder)
    assert stored is not None
    with pytest.raises(IncompleteError) as caught:
        await rollback(setting.repo, stored)
    assert caught.value.paths == (b"kept.txt",)
    assert place.read_bytes() == b"mine\n"
    with pytest.raises(RollbackRefusedError, match=r"kept\.txt was edited since"):
        await rollback(setting.repo, stored)


async def test_a_folder_made_where_a_file_was_is_a_conflict(repo: RepoBuilder) -> None:
    setting = await set_up(repo, change_two)
    journal = await setting.prepare()
    repo.root.joinpath("kept.txt").unlink()
    repo.root.joinpath("kept.txt").mkdir()
    with pytest.raises(ConflictsError, match=r"kept\.txt was edited"):
        await execute(journal)
    assert repo.root.joinpath("kept.txt").is_dir()
    assert repo.root.joinpath("edited.txt").read_bytes() == b"before\n"
    assert await stored_state(setting) is JournalState.ROLLED_BACK


@pytest.mark.parametrize("point", ["exchange.tried", "exchange.taken", "exchange.linked"])
async def test_a_completion_that_fails_between_two_steps_is_undone_and_can_be_repeated(
    repo: RepoBuilder, point: str
) -> None:
    setting = await set_up(repo, change_three)
    journal = await cut_short(setting)
    for number in (1, 2):
        faults.install(f"error:{point}:{number}:EIO")
        try:
            await resume(setting.repo, journal)
            break
        except ApplyFailedError:
            assert repo.root.joinpath("edited.txt").read_bytes() == b"before\n"
        finally:
            faults.install("")
    stored = await load_journal(setting.folder)
    assert stored is not None
    await resume(setting.repo, stored)
    assert setting.now() == setting.after
    assert sorted(os.listdir(journal.slots)) == ["0", "1"]
    await rollback(setting.repo, stored)
    assert setting.now() == setting.before


@pytest.mark.parametrize("way", ["completed", "taken back"])
async def test_an_undoing_that_died_while_a_file_was_away_can_be(
    repo: RepoBuilder, way: str
) -> None:
    setting = await set_up(repo, change_three)
    journal = await cut_short(setting)
    faults.install("error:apply.moves.checked:1:EIO")
    try:
        with pytest.raises(Died):  # while what the completion did is undone
            await resume(setting.repo, journal, mover=InTheGap(die))
    finally:
        faults.install("")
    assert await stored_state(setting) is JournalState.APPLYING
    assert journal.slots.joinpath("0").read_bytes() == b"before\n"
    if way == "completed":
        await resume(setting.repo, journal)
        assert setting.now() == setting.after
    await rollback(setting.repo, journal)
    assert setting.now() == setting.before
