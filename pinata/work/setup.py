"""Makes a writer's worktree ready: decides once for a run what to do, and does it in each one."""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

import trio

from engine.core.errors import CorruptionError
from engine.core.fingerprint import digest
from engine.core.ids import TreeId
from engine.core.outcome import FailureStage
from engine.core.quote import name_list
from engine.core.setup import MANAGERS, NO_LOCKFILE, TELLING_FILES, Setup, SetupSource, detect_setup
from engine.core.spec import RunSpec
from engine.system.files import make_private_dir, read_regular, replace_file
from engine.system.launch import LaunchError
from engine.system.output import ToFiles
from engine.system.process import ProcessExit, ProcessSpec, run
from pinata.work.blocking import in_thread
from pinata.work.draft import Draft, Ending
from pinata.work.workplace import Workplace
from pinata.work.workshop import Workshop
from worktrees.capture import capture
from worktrees.hygiene import Repository
from worktrees.objects import read_entries

_OUTPUT_LIMIT_BYTES = 16 << 20
_MOST_NAMED = 10
_TOLD = (*TELLING_FILES, "package.json", "pyproject.toml", "Pipfile")
_TOLD_LIMIT_BYTES = 64 << 20
_REGULAR_MODES = ("100644", "100755")


async def resolve_setup(
    spec: RunSpec, repository: Repository, base: TreeId | None, environment: Mapping[str, str]
) -> Setup:
    """Return how the run's worktrees are made ready.

    Args:
        spec: the request.
        repository: the checkout.
        base: the content that writers start from; None without writers.
        environment: what setup will see.
    """
    if base is None:
        return Setup(SetupSource.NOT_NEEDED)
    if isinstance(spec.config.setup, str):
        return Setup(SetupSource.CONFIG, spec.config.setup)
    if spec.config.setup is False:
        return Setup(SetupSource.DISABLED)
    entries = await read_entries(repository, base, [name.encode() for name in TELLING_FILES])
    files = [n.decode() for n, found in entries.items() if found and found.mode in _REGULAR_MODES]
    available = await trio.to_thread.run_sync(_available, environment.get("PATH", ""))
    return detect_setup(files, available)


def setup_notices(setup: Setup) -> tuple[str, ...]:
    """Return what the caller should know: that a project with lockfiles is worked on without."""
    if setup.reason is None or setup.reason == NO_LOCKFILE:
        return ()
    return (f"worktrees get no setup: {setup.reason}; set `setup` to a command or to false",)


def _available(path: str) -> tuple[str, ...]:
    return tuple(name for name in MANAGERS if shutil.which(name, path=path))


def _how(ended: ProcessExit) -> str:
    if ended.overflowed:
        return f"wrote more than {_OUTPUT_LIMIT_BYTES >> 20} MiB"
    if ended.code is None:
        return f"was ended by signal {ended.signal}"
    return f"exited with {ended.code}"


async def set_up(workshop: Workshop, draft: Draft, place: Workplace) -> Ending | None:
    """Run the run's setup; return how the attempt ends if it failed or left a change behind.

    It runs before the agent, in the worktree, with the environment of a check and `PINATA_ROOT`,
    the user's checkout. In a worktree that an earlier attempt left it is not run again, unless it
    did not succeed there or what it goes by has changed.
    """
    script = workshop.run.record.setup.command
    if script is None:
        return None
    draft.stage = FailureStage.SETUP
    worktree, mark = place.worktree, workshop.run.folder.setup_mark(draft.task.id)
    if place.content is None and await trio.to_thread.run_sync(_is_done, mark, script, worktree):
        return None
    seed = workshop.run.folder.index_file(draft.task.id)
    await in_thread(lambda: mark.unlink(missing_ok=True), "cannot run setup again")
    content = place.content
    if content is None:
        content = (await capture(worktree, place.base.tree, seed, workshop.scratch)).tree
    logs = workshop.run.folder.setup_dir(draft.attempt)
    await in_thread(lambda: make_private_dir(logs), "cannot keep the output of setup")
    spec = ProcessSpec(
        argv=(workshop.shell, "-c", script),
        cwd=worktree.root,
        env=workshop.environment | {"PINATA_ROOT": str(workshop.run.repository.root)},
        output=ToFiles(logs / "stdout", logs / "stderr", _OUTPUT_LIMIT_BYTES),
        mark=workshop.mark(draft.attempt),
    )
    try:
        ended = await run(spec)
    except LaunchError as error:
        return Ending.failed(f"setup: {error}", FailureStage.SETUP)
    if ended.code != 0 or ended.overflowed:
        return Ending.failed(f"setup {_how(ended)}; its output is in {logs}", FailureStage.SETUP)
    await workshop.ensure_in_place(worktree.root)
    found = await capture(worktree, content, seed, workshop.scratch)
    if found.altered:
        named = name_list(found.altered[:_MOST_NAMED])
        return Ending.failed(f"setup changed {named}; its output is in {logs}", FailureStage.SETUP)
    await in_thread(lambda: _note_done(mark, script, worktree), "cannot keep what setup did")
    return None


def _is_done(mark: Path, script: str, worktree: Repository) -> bool:
    try:
        return mark.read_text("ascii") == _what_it_goes_by(script, worktree)
    except FileNotFoundError:
        return False


def _note_done(mark: Path, script: str, worktree: Repository) -> None:
    replace_file(mark, _what_it_goes_by(script, worktree).encode("ascii"), fault="setup.done")


def _what_it_goes_by(script: str, worktree: Repository) -> str:
    """Return a digest of the script and of the files that say what is to be installed."""
    return digest({"script": script, "files": {n: _file_digest(worktree.root / n) for n in _TOLD}})


def _file_digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(read_regular(path, _TOLD_LIMIT_BYTES)).hexdigest()
    except (OSError, CorruptionError):
        return None  # not there, or nothing that a package manager reads
