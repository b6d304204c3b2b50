"""Finding a repository, and refusing in one sentence what pinata cannot handle.

Discovery is left to Git, in a clean environment: naming the folders to it instead would skip its
check of who owns the repository.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from engine.core.errors import ConflictError, ExternalError, UsageError
from engine.system.process import ProcessExit
from worktrees.hygiene import GitError, Repository, git_environment, run_git
from worktrees.machine import in_thread

# The oldest Git that takes `cat-file -z` and `merge-tree --write-tree`, and the oldest line of
# releases in which all of this was tried.
_OLDEST_GIT = (2, 38)
# Older versions echo the option back as if it were an answer.
_REF_FORMAT_SINCE = (2, 44)

_QUESTIONS = (
    "rev-parse",
    "--path-format=absolute",
    "--is-bare-repository",
    "--show-object-format",
    "--absolute-git-dir",
    "--git-common-dir",
)


async def discover(path: Path, env: Mapping[str, str], mark: str | None = None) -> Repository:
    """Return the repository whose working tree `path` lies in.

    Args:
        path: an existing folder.
        env: the caller's environment; a few variables of it reach Git.
        mark: for every process that works on this repository.

    Raises:
        UsageError: `path` is no folder, in no repository, or in a bare one.
        ConflictError: the repository is of a form that is not supported, or Git refuses it.
        ExternalError: Git is missing or too old.
    """
    if not await in_thread(path.is_dir):
        raise UsageError(f"{path} is not a folder")
    version = await _git_version(path, env, mark)
    if version < _OLDEST_GIT:
        needed, found = (".".join(map(str, v)) for v in (_OLDEST_GIT, version))
        raise ExternalError(f"Git {needed} or newer is needed, and this is {found}; update Git")
    questions = [*_QUESTIONS, "--show-toplevel"]
    if version >= _REF_FORMAT_SINCE:
        questions.insert(1, "--show-ref-format")
    answer = await run_git(*questions, cwd=path, env=git_environment(env), mark=mark)
    lines = os.fsdecode(answer.stdout).removesuffix("\n").split("\n")
    if answer.code != 0:
        _refuse(path, questions, answer, lines)
    if version >= _REF_FORMAT_SINCE and lines.pop(0) != "files":
        raise ConflictError(f"{path} keeps its refs in another format than files; not supported")
    bare, object_format, *folders = lines
    if bare != "false":
        raise _bare(path)
    if object_format != "sha1":
        raise ConflictError(f"{path} uses {object_format} object ids; only sha1 is supported")
    if len(folders) != 3:  # noqa: PLR2004  (the three answers that are paths, one a line)
        raise ConflictError("the path of the repository holds a line break; not supported")
    git_dir, common_dir, root = map(Path, folders)
    return Repository(root, git_dir, common_dir, env, mark)


async def _git_version(path: Path, env: Mapping[str, str], mark: str | None) -> tuple[int, ...]:
    answer = await run_git("version", cwd=path, env=git_environment(env), mark=mark)
    found = re.search(rb"(\d+)\.(\d+)", answer.stdout)
    if answer.code != 0 or found is None:
        raise GitError(("version",), answer.code, answer.stderr or answer.stdout)
    return tuple(map(int, found.groups()))


def _bare(path: Path) -> UsageError:
    return UsageError(f"{path} is in a bare repository, which has no working tree")


def _refuse(path: Path, questions: list[str], answer: ProcessExit, lines: list[str]) -> None:
    """Raise what Git's refusal means to the caller."""
    said = answer.stderr.decode("utf-8", "backslashreplace")
    reason = next((line for line in said.splitlines() if line.startswith("fatal: ")), "")
    reason = reason.removeprefix("fatal: ")
    if "dubious ownership" in said or "unsafe repository" in said:
        advice = re.search(r"git config --global --add safe\.directory .*", said)
        remedy = f"; if you trust it, run: {advice[0].strip()}" if advice else ""
        raise ConflictError(f"Git refuses {path} because somebody else owns it{remedy}")
    if "repository extension" in said or "repo version" in said or "repository version" in said:
        raise ConflictError(f"this Git cannot read the repository at {path}: {reason}")
    if "not a git repository" in said:
        raise UsageError(f"{path} is not in a Git repository")
    if "must be run in a work tree" in said:
        if "true" in lines:
            raise _bare(path)
        raise UsageError(f"{path} is inside a repository's own folder; name its working tree")
    raise GitError(questions, answer.code, answer.stderr)
