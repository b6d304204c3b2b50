from pathlib import Path

import pytest

from engine.system.launch import LaunchError
from engine.system.output import ToMemory
from tests.support.repos import RUN, RepoBuilder
from worktrees.discovery import discover
from worktrees.hygiene import GitError, Repository, git, git_environment, git_to_file, run_git
from worktrees.snapshot import take_snapshot
from worktrees.state import measure


def stand_in(folder: Path, script: str) -> dict[str, str]:
    """Return an environment in which `git` is a shell script."""
    folder.mkdir()
    program = folder / "git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": str(folder)}


def names_in(folder: Path) -> list[str]:
    """Return the names of what lies in `folder`, sorted."""
    return sorted(path.name for path in folder.iterdir())


async def test_variables_of_a_calling_hook_reach_no_call(
    repo: RepoBuilder, tmp_path: Path, scratch: Path
) -> None:
    other = RepoBuilder.create(tmp_path / "other", {"other.txt": "other\n"})
    before = other.facts()
    env = repo.env | {
        "GIT_DIR": str(other.root / ".git"),
        "GIT_WORK_TREE": str(other.root),
        "GIT_INDEX_FILE": str(other.root / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other.root / ".git/objects"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
    }
    found = await discover(repo.root, env)
    assert found.root == repo.root
    snapshot = await take_snapshot(found, RUN, scratch, include_uncommitted=True)
    assert snapshot.head == repo.ask("rev-parse", "HEAD")
    assert repo.ask("rev-parse", f"refs/pinata/{RUN}/base") == snapshot.commit
    assert other.facts() == before


def test_nothing_is_inherited_that_is_not_listed() -> None:
    env = git_environment({"PATH": "/bin", "GIT_DIR": "/x", "SSH_ASKPASS": "/y", "SECRET": "z"})
    assert env["PATH"] == "/bin"
    assert env["GIT_ASKPASS"] == ""
    assert not {"GIT_DIR", "SSH_ASKPASS", "SECRET"} & env.keys()


async def test_a_folder_that_git_cannot_look_into_is_a_failure(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    env = stand_in(tmp_path / "bin", "echo \"warning: could not open directory 'x/'\" >&2")
    place = Repository(repo.root, repo.root / ".git", repo.root / ".git", env)
    with pytest.raises(GitError, match="could not open directory"):
        await git(place, "status")


async def test_an_answer_that_was_cut_is_a_failure(repo: RepoBuilder) -> None:
    with pytest.raises(GitError, match="wrote more than can be kept"):
        await run_git("help", "-a", cwd=repo.root, env=repo.env, output=ToMemory(limit_bytes=10))


async def test_a_failure_names_the_command_and_what_git_said(repo: RepoBuilder) -> None:
    with pytest.raises(GitError, match=r"git cat-file -p nothing exited with 128: .*nothing") as e:
        await git(await repo.discovered(), "cat-file", "-p", b"nothing")
    assert (e.value.command, e.value.code) == (("cat-file", "-p", b"nothing"), 128)


async def test_a_long_complaint_becomes_one_line_with_both_ends(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    lines = "; ".join(f"echo line {number} >&2" for number in range(100, 300))
    env = stand_in(tmp_path / "bin", f"{lines}; exit 1")
    place = Repository(repo.root, repo.root / ".git", repo.root / ".git", env)
    with pytest.raises(GitError, match=r"with 1: line 100; line 101; .* … .*; line 299$") as e:
        await git(place, "-c", "a.b=c", "status")
    assert str(e.value).startswith("git status exited")
    assert "\n" not in str(e.value)


async def test_what_no_tree_may_hold_is_a_failure_and_not_left_out(repo: RepoBuilder) -> None:
    repo.write(".GIT/x", "x")
    with pytest.raises(GitError, match=r"left something out: Ignoring path \.GIT/x"):
        await git(
            await repo.discovered(),
            *("update-index", "--add", "-z", "--stdin"),
            index=repo.home / "index",
            stdin=b".GIT/x\0",
        )


async def test_git_ended_by_a_signal_is_said_so(repo: RepoBuilder, tmp_path: Path) -> None:
    env = stand_in(tmp_path / "bin", "kill -9 $$")
    place = Repository(repo.root, repo.root / ".git", repo.root / ".git", env)
    with pytest.raises(GitError, match="was ended by a signal: it gave no reason"):
        await git(place, "status")


async def test_a_missing_git_is_named(repo: RepoBuilder, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="git"):
        await discover(repo.root, {"PATH": str(tmp_path)})


async def test_neither_hooks_nor_a_configured_monitor_run(
    repo: RepoBuilder, tmp_path: Path, scratch: Path
) -> None:
    trace = tmp_path / "trace"
    repo.add_hooks(trace)
    monitor = repo.home / "monitor"
    monitor.write_text(f"#!/bin/sh\necho monitor >> {trace}\n")
    monitor.chmod(0o755)
    repo.write("edited.txt", "after\n")
    repo.git("-c", "core.hooksPath=/dev/null", "config", "core.fsmonitor", str(monitor))
    found = await repo.discovered()
    await take_snapshot(found, RUN, scratch, include_uncommitted=True)
    await measure(found, scratch)
    assert not trace.exists()


async def test_the_mark_reaches_what_git_starts(
    repo: RepoBuilder, tmp_path: Path, scratch: Path
) -> None:
    seen = tmp_path / "seen"
    repo.git("config", "filter.noting.clean", f"sh -c 'echo $PINATA_MARK > {seen}; cat'")
    repo.write(".gitattributes", "*.noted filter=noting\n")
    repo.write("x.noted", "x")
    await measure(await discover(repo.root, repo.env, "token/git"), scratch)
    assert seen.read_text() == "token/git\n"


async def test_a_replaced_object_is_seen_as_it_is(repo: RepoBuilder) -> None:
    old, new = repo.store(b"old"), repo.store(b"new")
    repo.git("replace", old, new)
    assert await git(await repo.discovered(), "cat-file", "blob", old) == b"old"


async def test_output_to_a_file_is_private_and_its_failure_leaves_no_complaints(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    found = await repo.discovered()
    target = tmp_path / "out"
    await git_to_file(found, "cat-file", "blob", "HEAD:kept.txt", target=target)
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"kept\n", 0o600)
    with pytest.raises(GitError, match="nothing"):
        await git_to_file(found, "cat-file", "blob", "nothing", target=tmp_path / "other")
    assert not [name for name in names_in(tmp_path) if name.endswith(".stderr")]
