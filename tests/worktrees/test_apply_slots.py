from pathlib import Path

import pytest

from tests.support.checkouts import set_up, write
from tests.support.repos import RepoBuilder
from worktrees.apply_ground import Ground
from worktrees.apply_plan import ConflictsError
from worktrees.apply_slots import NoPlaceError, check_unchanged, choose_place


def test_a_place_is_refused_when_nothing_near_is_on_the_checkouts_file_system(
    tmp_path: Path,
) -> None:
    with pytest.raises(NoPlaceError, match="beside /proc is on the file system of the checkout"):
        choose_place(tmp_path, Path("/proc"))


async def test_files_edited_or_gone_since_they_were_looked_at_are_named(repo: RepoBuilder) -> None:
    def change(root: Path) -> None:
        write(root / "edited.txt", b"after\n")
        write(root / "kept.txt", b"after\n")
        write(root / "folder/inner.txt", b"after\n")
        write(root / "added.txt", b"after\n")

    setting = await set_up(repo, change)
    journal = await setting.prepare()
    ground = Ground({entry.path: entry.before for entry in journal.entries}, (), (), ())
    check_unchanged(journal, ground)
    repo.write("edited.txt", "edited\n")
    repo.root.joinpath("folder/inner.txt").unlink()
    repo.root.joinpath("folder").rmdir()
    with pytest.raises(ConflictsError) as caught:
        check_unchanged(journal, ground)
    assert caught.value.paths == (b"edited.txt", b"folder/inner.txt")
