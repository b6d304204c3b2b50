"""What must not go with a rollback: the rest is tested where runs are taken back."""

import shutil
from dataclasses import replace

from tests.support.checkouts import change_three, set_up
from tests.support.repos import RepoBuilder
from worktrees.apply import execute, load_journal, rollback
from worktrees.emptied import remove_emptied_folders


async def test_only_empty_folders_of_readable_journals_that_were_taken_back_go(
    repo: RepoBuilder,
) -> None:
    setting = await set_up(repo, change_three)
    journal = await execute(await setting.prepare())
    new, damaged = repo.root / "new", setting.folder.with_name("damaged")
    damaged.mkdir()
    damaged.joinpath("journal.json").write_bytes(b"{")
    places = [damaged, setting.folder.with_name("missing"), setting.folder]
    new.joinpath("added.txt").unlink()
    await remove_emptied_folders(journal, 0, places)
    assert new.is_dir()  # the integration is still in force
    repo.write("new/added.txt", "added\n")
    await rollback(setting.repo, journal)
    new.mkdir()
    repo.write("new/mine.txt", "mine\n")
    await remove_emptied_folders(journal, 0, places)
    assert new.is_dir()  # it is not empty
    shutil.rmtree(new)
    new.mkdir()
    stored = await load_journal(setting.folder)
    assert stored is not None
    await remove_emptied_folders(journal, stored.file.stat().st_mtime_ns, places)
    assert new.is_dir()  # it was taken back before
    await remove_emptied_folders(replace(journal, root=repo.root / "folder"), 0, places)
    assert new.is_dir()  # in another checkout
    await remove_emptied_folders(journal, 0, places)
    assert not new.exists()
