"""An integration that takes the place of another: straight to the new result, back to the start."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import ConflictError, CorruptionError
from tests.support.applied import verify_applied
from tests.support.checkouts import Setting, build_many, change_many, set_up, write
from tests.support.movers import Died, Interrupted, InTheGap, die
from tests.support.repos import RepoBuilder
from worktrees.apply import (
    execute,
    load_journal,
    renew,
    resume,
    rollback,
    settle,
)
from worktrees.apply_plan import ConflictsError
from worktrees.apply_recovery import FileOutcome, RollbackRefusedError
from worktrees.exchange import LinkMover
from worktrees.journal import Journal, JournalState
from worktrees.state import measure

SECOND = "f" * 64
Change = Callable[[Path], None]


def first(root: Path) -> None:
    """Edit a file, remove one with its folder, add one in a folder of its own."""
    write(root / "edited.txt", b"first\n")
    shutil.rmtree(root / "folder")
    root.joinpath("deleted.txt").unlink()
    write(root / "new/added.txt", b"added\n")


def second(root: Path) -> None:
    """Edit the file otherwise, bring one back, put a file and a folder where the other was."""
    write(root / "edited.txt", b"second\n")
    shutil.rmtree(root / "folder")
    write(root / "folder", b"a file now\n")
    write(root / "new", b"a file too\n")
    write(root / "more/x.txt", b"x\n")


def nothing(root: Path) -> None:
    """Change nothing."""


async def both(builder: RepoBuilder, one: Change, two: Change) -> tuple[Setting, Setting]:
    """Return two changes that start from the same checkout."""
    return await set_up(builder, one), await set_up(builder, two)


async def applied(setting: Setting) -> Journal:
    journal = await settle(await execute(await setting.prepare()), JournalState.VERIFIED)
    assert setting.now() == setting.after
    return journal


async def planned_upon(setting: Setting, journal: Journal) -> Journal:
    triple = await measure(setting.repo, setting.repo.common_dir)
    return await renew(
        setting.repo, setting.changes, evidence_digest=SECOND, triple=triple, upon=journal
    )


async def renewed(setting: Setting, journal: Journal) -> Journal:
    done = await execute(await planned_upon(setting, journal))
    assert setting.now() == setting.after
    assert await verify_applied(setting.repo, done) == ()
    return done


async def stored(setting: Setting) -> Journal:
    journal = await load_journal(setting.folder)
    assert journal is not None
    return journal


@pytest.mark.parametrize(
    ("one", "two"),
    [(first, second), (second, first), (first, nothing), (nothing, first), (first, first)],
    ids=["other", "the other way", "nothing any more", "nothing before", "the same"],
)
async def test_new_result_takes_the_place_of_the_old_and_rollback_leads_to_the_start(
    repo: RepoBuilder, manner: str, one: Change, two: Change
) -> None:
    old, new = await both(repo, one, two)
    await renewed(new, await applied(old))
    journal = await stored(new)
    assert (journal.state, journal.number, journal.evidence_digest) == (
        JournalState.VERIFYING,
        2,
        SECOND,
    )
    kept = json.loads((new.folder / "journal-1.json").read_text())
    assert (kept["number"], kept["state"]) == (1, "verified")
    answers = await rollback(new.repo, journal)
    assert new.now() == old.before
    touched = {change.path for change in (*old.changes, *new.changes)}
    assert {answer.path for answer in answers} == touched
    assert not list(new.folder.glob("slots-*"))
    with pytest.raises(ConflictError, match="rolled back already"):
        await rollback(new.repo, await stored(new))
    await execute(await new.prepare())
    assert new.now() == new.after


async def test_every_kind_of_change_is_replaced_and_taken_back(tmp_path: Path, manner: str) -> None:
    def change_again(root: Path) -> None:
        change_many(root)
        write(root / "dirty.txt", b"three\r\n")
        write(root / "gone/deep/x", b"back\n", 0o755)
        root.joinpath("script.sh").chmod(0o640)
        root.joinpath("new/run.sh").unlink()
        shutil.rmtree(root / "was-file")
        write(root / "was-file", b"another file\n")
        root.joinpath("link").unlink()
        root.joinpath("link").symlink_to("clean.txt")

    old, new = await both(build_many(tmp_path / "checkout"), change_many, change_again)
    index = new.repo.index.read_bytes()
    journal = await renewed(new, await applied(old))
    await rollback(new.repo, journal)
    assert new.now() == old.before
    assert new.repo.index.read_bytes() == index


async def test_three_in_a_row_lead_back_to_the_start(repo: RepoBuilder) -> None:
    old, new = await both(repo, first, second)
    journal = await renewed(new, await applied(old))
    journal = await renewed(old, journal)
    journal = await renewed(new, journal)
    assert len(journal.layers) == 4
    await rollback(new.repo, await stored(new))
    assert new.now() == old.before


async def test_dirty_original_comes_back_byte_for_byte_when_the_new_result_leaves_it_alone(
    repo: RepoBuilder,
) -> None:
    repo.write(".gitattributes", "*.txt text\n")
    repo.commit("attributes")
    repo.root.joinpath("edited.txt").write_bytes(b"mine\r\n")
    repo.root.joinpath("edited.txt").chmod(0o744)
    old, new = await both(repo, first, nothing)
    await renewed(new, await applied(old))
    assert repo.root.joinpath("edited.txt").read_bytes() == b"mine\r\n"
    assert new.now() == old.before


async def test_called_again_it_moves_nothing_and_sees_what_was_put_back_by_hand(
    repo: RepoBuilder,
) -> None:
    old, new = await both(repo, first, second)
    journal = await renewed(new, await applied(old))
    inode = repo.root.joinpath("folder").stat().st_ino
    journal = await resume(new.repo, journal)
    assert repo.root.joinpath("folder").stat().st_ino == inode
    repo.write("edited.txt", "first\n")
    with pytest.raises(ConflictsError, match=r"edited.txt was put back by hand"):
        await resume(new.repo, journal)


async def test_file_that_only_the_old_plan_moved_is_watched_too(repo: RepoBuilder) -> None:
    def two(root: Path) -> None:
        first(root)
        write(root / "kept.txt", b"two\n")

    old, new = await both(repo, first, two)
    journal = await renewed(new, await applied(old))
    assert [entry.path for entry in journal.entries] == [b"kept.txt"]
    repo.write("edited.txt", "mine\n")
    assert await verify_applied(new.repo, journal) == (b"edited.txt",)
    with pytest.raises(ConflictsError, match=r"edited.txt was edited since"):
        await resume(new.repo, journal)
    before = new.now()
    with pytest.raises(RollbackRefusedError, match=r"edited.txt was edited since") as refused:
        await rollback(new.repo, journal)
    assert new.now() == before
    outcomes = {answer.path: answer.outcome for answer in refused.value.answers}
    assert outcomes[b"edited.txt"] is FileOutcome.EDITED
    assert outcomes[b"kept.txt"] is FileOutcome.KEPT


async def test_edited_file_refuses_the_new_result_and_leaves_the_old_in_force(
    repo: RepoBuilder,
) -> None:
    old, new = await both(repo, first, second)
    journal = await applied(old)
    repo.write("edited.txt", "mine\n")
    before = new.now()
    with pytest.raises(ConflictsError, match=r"cannot be replaced: edited.txt was edited since"):
        await planned_upon(new, journal)
    assert new.now() == before
    assert await stored(new) == journal
    assert not (new.folder / "journal-1.json").exists()


async def test_place_that_is_taken_refuses_the_new_result(repo: RepoBuilder) -> None:
    old, new = await both(repo, first, second)
    journal = await applied(old)
    repo.write("more", "mine\n")
    with pytest.raises(ConflictsError, match="more, which is no folder"):
        await planned_upon(new, journal)
    assert await stored(new) == journal
    assert not (new.folder / "slots-2").exists()


async def test_head_that_moved_refuses_the_new_result(repo: RepoBuilder) -> None:
    old, new = await both(repo, first, second)
    journal = await applied(old)
    repo.commit("taken")
    with pytest.raises(ConflictError, match="HEAD has changed"):
        await planned_upon(new, journal)


async def test_file_that_an_interruption_left_between_two_states_is_to_be_rolled_back_first(
    repo: RepoBuilder,
) -> None:
    old, new = await both(repo, first, second)
    journal = await old.prepare(movers=(LinkMover(),))
    with pytest.raises(Died):
        await execute(journal, mover=InTheGap(die))
    with pytest.raises(ConflictsError, match="between two states by an interruption: roll back"):
        await planned_upon(new, journal)
    await rollback(old.repo, journal)
    assert old.now() == old.before


async def test_interrupted_integration_is_replaced_as_far_as_it_got(repo: RepoBuilder) -> None:
    old, new = await both(repo, first, second)
    journal = await old.prepare()
    with pytest.raises(Died):
        await execute(journal, mover=Interrupted(b"edited.txt", after=die))
    journal = await renewed(new, journal)
    await rollback(new.repo, journal)
    assert new.now() == old.before


async def test_change_that_starts_from_something_else_is_refused(repo: RepoBuilder) -> None:
    old, new = await both(repo, first, second)
    journal = await applied(old)
    odd = [replace(change, old_mode="100755") for change in new.changes]
    with pytest.raises(ConflictsError, match=r"edited.txt is not what the changes start from"):
        await planned_upon(replace(new, changes=tuple(odd)), journal)


async def test_old_result_that_was_put_back_by_hand_is_no_obstacle(repo: RepoBuilder) -> None:
    old, new = await both(repo, first, second)
    journal = await applied(old)
    repo.write("edited.txt", "before\n")
    repo.write("deleted.txt", "going\n")
    journal = await renewed(new, journal)
    await rollback(new.repo, journal)
    assert new.now() == old.before


async def test_files_put_back_to_the_start_by_hand_are_left_alone_by_rollback(
    repo: RepoBuilder,
) -> None:
    old, new = await both(repo, first, second)
    journal = await renewed(new, await applied(old))
    repo.write("edited.txt", "before\n")
    answers = await rollback(new.repo, journal)
    assert new.now() == old.before
    outcomes = {answer.path: answer.outcome for answer in answers}
    assert outcomes[b"edited.txt"] is FileOutcome.ALREADY


async def test_originals_that_are_gone_are_damage_and_nothing_is_done(repo: RepoBuilder) -> None:
    old, new = await both(repo, first, second)
    journal = await renewed(new, await applied(old))
    shutil.rmtree(new.folder / "slots-1")
    with pytest.raises(CorruptionError, match="slots-1"):
        await rollback(new.repo, journal)
    assert new.now() == new.after


async def test_another_integration_than_the_one_in_force_is_not_built_upon(
    repo: RepoBuilder,
) -> None:
    old, new = await both(repo, first, second)
    journal = await applied(old)
    await settle(replace(journal, state=JournalState.VERIFIED), JournalState.VERIFYING)
    with pytest.raises(ConflictError, match="complete it or roll it back first"):
        await planned_upon(new, journal)


async def test_edit_while_the_new_result_goes_in_brings_the_old_into_force_again(
    repo: RepoBuilder,
) -> None:
    old, new = await both(repo, first, second)
    journal = await applied(old)
    planned = await planned_upon(new, journal)
    repo.write("edited.txt", "mine\n")
    mine = new.now()
    with pytest.raises(ConflictsError, match=r"edited.txt was edited"):
        await execute(planned)
    assert new.now() == mine
    assert await stored(new) == journal
    assert not (new.folder / "slots-2").exists()
    repo.write("edited.txt", "first\n")
    await rollback(new.repo, journal)
    assert new.now() == old.before


async def test_plan_that_failed_stays_one_to_begin_when_the_old_cannot_be_put_in_force(
    repo: RepoBuilder,
) -> None:
    old, new = await both(repo, first, second)
    planned = await planned_upon(new, await applied(old))
    (new.folder / "journal-1.json").unlink()
    repo.write("edited.txt", "mine\n")
    with pytest.raises(ConflictsError, match=r"edited.txt was edited"):
        await execute(planned)
    assert (await stored(new)).state is JournalState.APPLYING
    repo.write("edited.txt", "first\n")
    await resume(new.repo, await stored(new))
    assert new.now() == new.after
    await rollback(new.repo, await stored(new))
    assert new.now() == old.before
