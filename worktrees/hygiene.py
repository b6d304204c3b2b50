"""How the git program is called: the only module here that starts it, and always the same way.

Git obeys its environment, the user's configuration and hooks. Each of them has turned a harmless
call into a wrong answer somewhere, so a call inherits nothing that is not on a list here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from engine.core.errors import ExternalError
from engine.core.quote import escape
from engine.system.output import Output, ToFiles, ToMemory
from engine.system.process import ProcessExit, ProcessSpec, run
from worktrees.machine import in_thread

# What a call takes over from its caller. No GIT_* variable is among them: a hook that starts
# pinata exports GIT_DIR and GIT_INDEX_FILE, which name another repository than the one meant.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_CONFIG_HOME")

_FIXED = {
    "LC_ALL": "C.UTF-8",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # Nothing here needs the network; a partial clone must fail and not fetch behind our back.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_AUTHOR_NAME": "pinata",
    "GIT_AUTHOR_EMAIL": "pinata@localhost",
    "GIT_COMMITTER_NAME": "pinata",
    "GIT_COMMITTER_EMAIL": "pinata@localhost",
}

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "core.safecrlf=false",
    "core.askPass=",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
)
_PROGRAM = ("git", *(part for setting in _SETTINGS for part in ("-c", setting)))

# Git leaves out a folder that it cannot open, and a name that no tree may hold, says so on stderr
# and exits 0: a silently smaller tree.
_INCOMPLETE = re.compile(rb"could not open directory|^Ignoring path ", re.MULTILINE)

# For the one call that reaches a network. Nobody is there to answer a question.
_NETWORK = {
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
}
# Exactly what is asked for, into exactly the refs that are named: no tags, no tracking branches,
# no FETCH_HEAD, no submodules, no collection afterwards.
_FETCH = (
    "fetch",
    "--quiet",
    "--atomic",
    "--no-tags",
    "--no-prune",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--no-write-fetch-head",
    "--no-write-commit-graph",
    "--no-show-forced-updates",
    "--refmap=",
    "--upload-pack=git-upload-pack",
    "--end-of-options",
)
_FETCH_OUTPUT = ToMemory(limit_bytes=1 << 20)

_STDERR_TAIL_BYTES = 2000
_SHOWN_WORDS = 4
_SHOWN_STDERR_CHARS = 300
# A listing of paths grows with the repository; a patch goes to a file and is bounded by the disk.
_OUTPUT = ToMemory(limit_bytes=1 << 30)
_FILE_LIMIT_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository, found once by discovery and named explicitly in every later call.

    Explicit folders keep a call inside this repository whatever an agent does to the `.git` file
    of its worktree.

    Attributes:
        root: the working tree.
        git_dir: this working tree's own folder: for a linked worktree the one below
            `<common_dir>/worktrees/`.
        common_dir: the folder that all working trees of the repository share.
        env: the environment of whoever called; each call takes over a few variables of it.
        mark: put into the environment of every process started here.
        new_objects: where objects that a call makes are put, None for the repository itself.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    env: Mapping[str, str]
    mark: str | None = None
    new_objects: Path | None = None

    @property
    def index(self) -> Path:
        """The working tree's own index, which is read and copied but never written."""
        return self.git_dir / "index"


class GitError(ExternalError):
    """The git program failed.

    Attributes:
        command: the arguments after `git`.
        code: the exit code, None when a signal ended it.
        stderr: the end of what it said.
    """

    def __init__(self, command: Sequence[str | bytes], code: int | None, stderr: bytes) -> None:
        self.command = tuple(command)
        self.code = code
        self.stderr = stderr[-_STDERR_TAIL_BYTES:].decode("utf-8", "backslashreplace").strip()
        ended = "was ended by a signal" if code is None else f"exited with {code}"
        if code == 0:
            ended = "left something out"
        at = 0
        while self.command[at : at + 1] == ("-c",):
            at += 2
        shown = " ".join(_as_text(part) for part in self.command[at : at + _SHOWN_WORDS])
        super().__init__(f"git {shown} {ended}: {_one_line(stderr) or 'it gave no reason'}")


def _one_line(stderr: bytes) -> str:
    """Return what Git said as one line, of a long one the beginning and the end."""
    lines = (line.strip() for line in stderr.decode("utf-8", "backslashreplace").splitlines())
    text = escape("; ".join(line for line in lines if line))
    if len(text) <= 2 * _SHOWN_STDERR_CHARS:
        return text
    return f"{text[:_SHOWN_STDERR_CHARS]} … {text[-_SHOWN_STDERR_CHARS:]}"


def _as_text(part: str | bytes) -> str:
    return part.decode("utf-8", "backslashreplace") if isinstance(part, bytes) else part


def git_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a call that does not know its repository yet."""
    return {name: env[name] for name in _INHERITED if name in env} | _FIXED


async def run_git(
    *arguments: str | bytes,
    cwd: Path,
    env: Mapping[str, str],
    mark: str | None = None,
    stdin: bytes = b"",
    output: Output = _OUTPUT,
) -> ProcessExit:
    """Run git with exactly `env` and return how it ended, whatever that was.

    Raises:
        LaunchError: git could not be started.
        GitError: it wrote more than is kept, so its answer is not whole.
    """
    ended = await run(
        ProcessSpec((*_PROGRAM, *arguments), cwd, env, stdin=stdin, output=output, mark=mark)
    )
    if ended.overflowed:
        raise GitError(arguments, ended.code, b"it wrote more than can be kept")
    return ended


async def git(
    repo: Repository,
    *arguments: str | bytes,
    index: Path | None = None,
    stdin: bytes = b"",
    ok: Sequence[int] = (0,),
) -> bytes:
    """Run git on `repo` and return what it wrote to stdout.

    Args:
        repo: where; the call runs in its root.
        arguments: the subcommand and what follows it.
        index: the index to use. A call that may write one names a private copy here.
        stdin: what git reads.
        ok: exit codes that are an answer.

    Raises:
        GitError: another exit code, or a folder that git could not look into.
    """
    env = _located_environment(repo, index)
    ended = await run_git(*arguments, cwd=repo.root, env=env, mark=repo.mark, stdin=stdin)
    if ended.code not in ok or _INCOMPLETE.search(ended.stderr):
        raise GitError(arguments, ended.code, ended.stderr)
    return ended.stdout


async def git_to_file(repo: Repository, *arguments: str | bytes, target: Path) -> None:
    """Run git on `repo` with its stdout written to `target`, which gets mode 0600.

    Raises:
        GitError: it did not exit with 0; `target` then holds a part, or nothing.
    """
    complaints = target.with_name(f"{target.name}.stderr")
    files = ToFiles(target, complaints, _FILE_LIMIT_BYTES)
    env = _located_environment(repo, None)
    try:
        ended = await run_git(*arguments, cwd=repo.root, env=env, mark=repo.mark, output=files)
        if ended.code != 0:
            stderr = await in_thread(complaints.read_bytes)
            raise GitError(arguments, ended.code, stderr)
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(_unlink, complaints)


async def git_fetch(
    repo: Repository,
    address: str,
    refspecs: Sequence[str],
    *,
    protocol: str,
    access: Mapping[str, str],
) -> None:
    """Fetch into `repo`: the only call here that may reach a network.

    The address is given and not the name of a remote, whose configuration could move other refs,
    leave objects out or name another program. There is no time limit; a cancelled call stops Git.

    Args:
        repo: where; only the refs that `refspecs` name change.
        address: of the other repository; the user's `url.*.insteadOf` applies to it.
        refspecs: each names a ref on either side.
        protocol: the only one that Git may speak, also after `insteadOf` and redirections.
        access: variables that let Git and ssh in; no other call gets them.

    Raises:
        GitError: it failed; no ref was changed.
    """
    env = _located_environment(repo, None) | _NETWORK | dict(access)
    env["GIT_ALLOW_PROTOCOL"] = protocol
    arguments = (*_FETCH, address, *refspecs)
    ended = await run_git(*arguments, cwd=repo.root, env=env, mark=repo.mark, output=_FETCH_OUTPUT)
    if ended.code != 0:
        # The address may hold a password, which Git leaves out of what it says itself.
        raise GitError(("fetch",), ended.code, ended.stderr)


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


def _located_environment(repo: Repository, index: Path | None) -> dict[str, str]:
    env = git_environment(repo.env)
    env["GIT_DIR"] = str(repo.git_dir)
    env["GIT_WORK_TREE"] = str(repo.root)
    if repo.git_dir != repo.common_dir:
        # A linked worktree's folder names the common one in a file that an agent can write.
        env["GIT_COMMON_DIR"] = str(repo.common_dir)
    if index is not None:
        env["GIT_INDEX_FILE"] = str(index)
    if repo.new_objects is not None:
        env["GIT_OBJECT_DIRECTORY"] = str(repo.new_objects)
        # The list is split at colons, but not inside double quotes.
        own = str(repo.common_dir / "objects").replace("\\", "\\\\").replace('"', '\\"')
        env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{own}"'
    return env
