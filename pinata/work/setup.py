"""Prepares a writer's worktree with the script that the run's configuration names."""

from engine.core.changes import quote_path
from engine.core.ids import TreeId
from engine.core.outcome import FailureStage
from engine.core.quote import name_list
from engine.system.files import make_private_dir
from engine.system.process import LaunchError, ProcessSpec, ToFiles, run
from pinata.work.draft import Draft, Ending
from pinata.work.workshop import Workshop, in_thread
from worktrees.capture import capture
from worktrees.hygiene import Repository

_OUTPUT_LIMIT_BYTES = 16 << 20
_MOST_NAMED = 10


async def set_up(
    workshop: Workshop, draft: Draft, worktree: Repository, base: TreeId
) -> Ending | None:
    """Run the setup script; return how the attempt ends if it failed or left a change behind.

    It runs before the agent, in the worktree, with the environment of a check and `PINATA_ROOT`,
    the user's checkout.
    """
    script = workshop.run.spec.config.setup
    if not isinstance(script, str):
        return None
    draft.stage = FailureStage.SETUP
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
        how = "wrote too much" if ended.overflowed else f"exited with {ended.code}"
        return Ending.failed(f"setup {how}; its output is in {logs}", FailureStage.SETUP)
    seed = workshop.run.folder.index_file(draft.task.id)
    found = await capture(worktree, base, seed, workshop.scratch)
    altered = [quote_path(change.path) for change in found.changes]
    altered += [quote_path(path) for path in found.nested]
    if altered:
        named = name_list(altered[:_MOST_NAMED])
        return Ending.failed(f"setup changed {named}; its output is in {logs}", FailureStage.SETUP)
    return None
