"""Which files a working tree has, as far as Git is concerned."""

from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread


async def list_files(repo: Repository) -> tuple[bytes, ...]:
    """Return tracked paths and untracked ones that are not ignored, sorted, without repeats.

    A tracked file that was deleted is still among them; what lies in a repository of its own, or in
    a submodule, is not.
    """
    # Without the letter in front, an untracked name with a tab could be read as a tracked one.
    options = ("-z", "-t", "--stage", "--cached", "--others", "--exclude-standard")
    out = await git(repo, "ls-files", *options, index=repo.index)
    return await in_thread(_decode, out)


def _decode(out: bytes) -> tuple[bytes, ...]:
    paths: set[bytes] = set()
    for record in out.split(b"\0"):
        letter, facts = record[:2], record[2:]
        if letter == b"? ":
            if not facts.endswith(b"/"):
                paths.add(facts)
        elif not facts.startswith(b"160000 "):
            paths.add(facts.partition(b"\t")[2])
    return tuple(sorted(paths - {b""}))
