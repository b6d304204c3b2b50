from pathlib import Path

from tests.support.repos import RepoBuilder
from tests.worktrees.test_contents import HOSTILE_NAMES, with_submodule
from tests.worktrees.test_discovery import leave_conflict
from worktrees.files import list_files


async def test_tracked_and_untracked_files_are_listed_and_ignored_ones_are_not(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    with_submodule(repo, tmp_path)
    repo.write("tracked\ttab", "")
    repo.git("add", "tracked\ttab")
    for name in HOSTILE_NAMES:
        repo.write(name, "x")
    repo.write("100644 fake 0\tname", "x")
    repo.write("secret.ignored", "x")
    repo.git("init", "--quiet", "nested")
    repo.write("nested/inner.txt", "x")
    (repo.root / "deleted.txt").unlink()
    leave_conflict(repo)
    before = repo.facts()
    assert await list_files(await repo.discovered()) == tuple(
        sorted(
            [
                *HOSTILE_NAMES,
                b".gitignore",
                b".gitmodules",
                b"100644 fake 0\tname",
                b"deleted.txt",
                b"edited.txt",
                b"folder/inner.txt",
                b"kept.txt",
                b"tracked\ttab",
            ]
        )
    )
    assert repo.facts() == before
