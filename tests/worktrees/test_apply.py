from pathlib import Path

import pytest

from tests.support.checkouts import build_many, change_many, listing, set_up, write
from tests.support.repos import RepoBuilder
from worktrees.apply import execute, load_journal, prepare, resume, rollback, settle, verify_applied
from worktrees.apply_plan import ConflictsError
from worktrees.apply_recovery import FileAnswer, FileOutcome
from worktrees.journal import JournalState


@pytest.fixture
def many(tmp_path: Path) -> RepoBuilder:
    """A checkout with one file for each way in which a path can change."""
    return build_many(tmp_path / "many")


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
    stored = await load_journal(setting.folder)
    assert stored is not None
    assert stored.state is JournalState.ROLLED_BACK
    assert not journal.slots.exists()
