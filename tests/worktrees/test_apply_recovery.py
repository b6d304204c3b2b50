import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import ConflictError, CorruptionError
from engine.system import faults
from tests.support.applied import verify_applied
from tests.support.checkouts import (
    Setting,
    build_many,
    change_many,
    change_three,
    change_two,
    edit,
    set_up,
    stored_state,
    write,
)
from tests.support.movers import Died, Interrupted, die
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
    ApplyFailedError,
    FileAnswer,
    FileOutcome,
    RollbackRefusedError,
)
from worktrees.journal import Journal, JournalState

pytestmark = pytest.mark.usefixtures("manner")


@pytest.fixture
def many(tmp_path: Path) -> RepoBuilder:
    """A checkout with one file for each way in which a path can change."""
    return build_many(tmp_path / "many")


async def interrupted(setting: Setting, name: bytes) -> Journal:
    """Die just before `name` is moved, and return the journal that was left."""
    journal = await setting.prepare()
    with pytest.raises(Died):
        await execute(journal, mover=Interrupted(name, before=die))
    left = await load_journal(setting.folder)
    assert left == journal
    return left


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
    mover = Interrupted(b"edited.txt", before=lambda: edit(setting), after=die)
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
    faults.install("error:apply.move.done:2:ENOSPC")
    try:
        with pytest.raises(ApplyFailedError):
            await resume(setting.repo, journal)
    finally:
        faults.install("")
    assert setting.now() == before
    with pytest.raises(ConflictsError):
        await resume(
            setting.repo, journal, mover=Interrupted(b"edited.txt", before=lambda: edit(setting))
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
        with pytest.raises(
            ConflictError, match=r"the index has changed.* unstage what was staged \(git reset\)"
        ):
            await call(setting.repo, journal)
    repo.git("commit", "--quiet", "--message", "by the user")
    for call in (resume, rollback):
        with pytest.raises(ConflictError, match=r"HEAD has changed.* undo the commit"):
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
