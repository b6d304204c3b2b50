import os
import shutil
from pathlib import Path

import pytest

from engine.core.errors import ConflictError, ExternalError, UsageError
from tests.support.repos import RepoBuilder
from tests.worktrees.test_hygiene import stand_in
from worktrees.discovery import discover
from worktrees.hygiene import GitError


async def test_a_folder_inside_the_checkout_leads_to_its_root(repo: RepoBuilder) -> None:
    found = await discover(repo.root / "folder", repo.env)
    assert (found.root, found.git_dir, found.common_dir) == (
        repo.root,
        repo.root / ".git",
        repo.root / ".git",
    )
    assert found.index == repo.root / ".git/index"


async def test_a_linked_worktree_has_a_folder_of_its_own(repo: RepoBuilder, tmp_path: Path) -> None:
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    found = await discover(tmp_path / "linked", repo.env)
    assert found.root == tmp_path / "linked"
    assert found.git_dir == repo.root / ".git/worktrees/linked"
    assert found.common_dir == repo.root / ".git"


async def test_a_place_without_a_repository_is_refused(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with pytest.raises(UsageError, match="is not in a Git repository"):
        await discover(tmp_path, env)
    with pytest.raises(UsageError, match="is not a folder"):
        await discover(tmp_path / "missing", env)


async def test_a_bare_repository_is_refused(repo: RepoBuilder, tmp_path: Path) -> None:
    repo.git("clone", "--quiet", "--bare", str(repo.root), str(tmp_path / "bare"))
    with pytest.raises(UsageError, match="bare repository"):
        await discover(tmp_path / "bare", repo.env)


async def test_a_checkout_that_says_it_is_bare_is_refused(repo: RepoBuilder) -> None:
    repo.git("config", "core.bare", "true")
    with pytest.raises(UsageError, match="bare repository"):
        await discover(repo.root, repo.env)


async def test_the_inside_of_a_git_folder_is_refused(repo: RepoBuilder) -> None:
    with pytest.raises(UsageError, match="name its working tree"):
        await discover(repo.root / ".git", repo.env)


async def test_long_object_ids_are_refused(repo: RepoBuilder, tmp_path: Path) -> None:
    repo.git("init", "--quiet", "--object-format=sha256", str(tmp_path / "long"))
    with pytest.raises(ConflictError, match="sha256"):
        await discover(tmp_path / "long", repo.env)


async def test_an_extension_that_git_does_not_know_is_refused(repo: RepoBuilder) -> None:
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.fromTheFuture", "true")
    with pytest.raises(ConflictError, match="cannot read the repository"):
        await discover(repo.root, repo.env)


async def test_a_root_with_a_line_break_is_refused(tmp_path: Path) -> None:
    odd = RepoBuilder.create(tmp_path / "two\nlines")
    with pytest.raises(ConflictError, match="line break"):
        await discover(odd.root, odd.env)


async def test_a_root_that_is_not_utf_8_is_found(tmp_path: Path) -> None:
    odd = RepoBuilder.create(tmp_path / os.fsdecode(b"caf\xe9"))
    assert (await discover(odd.root, odd.env)).root == odd.root


async def test_a_repository_of_somebody_else_is_refused_with_the_advice_of_git(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    real = shutil.which("git", path=repo.env["PATH"])
    env = stand_in(tmp_path / "bin", f'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {real} "$@"')
    with pytest.raises(ConflictError, match=r"git config --global --add safe\.directory /"):
        await discover(repo.root, repo.env | env)


REFTABLE = """
case "$*" in
  *version) echo git version 2.50.1 ;;
  *) printf 'reftable\\nfalse\\nsha1\\n/x/.git\\n/x/.git\\n/x\\n' ;;
esac
"""


async def test_refs_in_another_format_are_refused(tmp_path: Path) -> None:
    env = stand_in(tmp_path / "bin", REFTABLE)
    with pytest.raises(ConflictError, match="refs in another format"):
        await discover(tmp_path, env)


async def test_an_old_git_is_refused_with_both_versions(tmp_path: Path) -> None:
    env = stand_in(tmp_path / "bin", "echo git version 2.30.2")
    with pytest.raises(ExternalError, match=r"Git 2\.38 or newer is needed, and this is 2\.30"):
        await discover(tmp_path, env)


async def test_a_git_without_a_version_is_refused(tmp_path: Path) -> None:
    env = stand_in(tmp_path / "bin", "echo hello")
    with pytest.raises(GitError, match="hello"):
        await discover(tmp_path, env)


async def test_a_refusal_that_is_not_known_is_passed_on(tmp_path: Path) -> None:
    script = 'case "$*" in *version) echo git version 2.40.0 ;; *) echo odd >&2; exit 3 ;; esac'
    with pytest.raises(GitError, match="exited with 3: odd"):
        await discover(tmp_path, stand_in(tmp_path / "bin", script))


def leave_conflict(repo: RepoBuilder) -> None:
    """Leave `edited.txt` unmerged in the index."""
    blobs = [repo.store(text) for text in (b"base", b"ours", b"theirs")]
    lines = "".join(f"100644 {blob} {stage}\tedited.txt\n" for stage, blob in enumerate(blobs, 1))
    repo.git("update-index", "--force-remove", "edited.txt")
    repo.git("update-index", "--index-info", stdin=lines.encode())
