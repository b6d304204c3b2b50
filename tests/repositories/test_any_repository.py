"""Whatever a checkout holds: stored as Git stores it, captured, patched, brought in, taken back."""

import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings, strategies as st

from engine.core.changes import SYMLINK_MODE
from tests.repositories.test_matrix import stored_by_git
from tests.support.applied import verify_applied
from tests.support.checkouts import Setting, listing
from tests.support.repos import RepoBuilder
from tests.support.workshop import Workshop, open_workshop
from worktrees.apply import execute, rollback
from worktrees.capture import Capture
from worktrees.patch import write_patch
from worktrees.state import measure

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

# An example takes half a second, so there are few of them, and more in a long run.
EXAMPLES = max(1, settings.default.max_examples // 10) if settings.default else 5

NAMES = (
    b"a",
    b"A",
    b"b.txt",
    b"c.sh",
    b"-d",
    b"two\nlines",
    b"latin-\xe9",
    "decomposed-e\u0301".encode(),
    "composed-\u00e9".encode(),
    b'"q"',
    b"x.ignored",
    b"*[x]?",
)
CONTENTS = (b"", b"one\n", b"two\n", b"a\r\nb\r\n", b"a\r\nb\n", b"\0\1\2\r\n", b"no end", b"\r")
ATTRIBUTES = (b"", b"* text=auto\n", b"*.txt text eol=crlf\n", b"* -text\n", b"*.sh text eol=lf\n")


@dataclass(frozen=True, slots=True)
class File:
    """What lies at a path: bytes that may be run or not, or a link to them."""

    content: bytes
    mode: int = 0o644
    is_link: bool = False


Tree = Mapping[bytes, File]

files = st.one_of(
    st.builds(File, st.sampled_from(CONTENTS), st.sampled_from([0o644, 0o755, 0o600])),
    st.sampled_from([File(target, is_link=True) for target in (b"a", b"nowhere")]),
)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(b"/".join)


def without_collisions(tree: Tree) -> Tree:
    """Return `tree` without what would lie below a file."""
    kept: dict[bytes, File] = {}
    for path in sorted(tree):
        parts = path.split(b"/")
        if not any(b"/".join(parts[:count]) in kept for count in range(1, len(parts))):
            kept[path] = tree[path]
    return kept


trees = st.dictionaries(paths, files, max_size=6).map(without_collisions)


def bring(root: Path, before: Tree, after: Tree) -> None:
    """Change the files below `root` from one tree to another; equal files are not touched."""
    for path in before.keys() - after.keys():
        place = root / os.fsdecode(path)
        place.unlink()
        while place.parent != root and not any(place.parent.iterdir()):
            place = place.parent
            place.rmdir()
    for path, file in after.items():
        if before.get(path) != file:
            place = root / os.fsdecode(path)
            place.unlink(missing_ok=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            if file.is_link:
                place.symlink_to(os.fsdecode(file.content))
            else:
                place.write_bytes(file.content)
                place.chmod(file.mode)


@dataclass(frozen=True, slots=True)
class Story:
    """A commit, what its user made of it since, what of that is staged, and what a writer does."""

    attributes: bytes
    committed: Tree
    found: Tree
    staged: bool
    made: Tree


stories = st.builds(Story, st.sampled_from(ATTRIBUTES), trees, trees, st.booleans(), trees)


def as_found(root: Path) -> Tree:
    """Return what of the names used here lies below `root`, which a checkout may have changed."""
    found: dict[bytes, File] = {}
    for name, (mode, content) in listing(root).items():
        path = os.fsencode(name)
        if name not in {".git", ".gitattributes", ".gitignore"} and not stat.S_ISDIR(mode):
            found[path] = File(content, stat.S_IMODE(mode), stat.S_ISLNK(mode))
    return found


def build(story: Story, folder: Path) -> RepoBuilder:
    rules: dict[str, str | bytes] = {".gitattributes": story.attributes, ".gitignore": "*.ignored"}
    repo = RepoBuilder.create(folder / "checkout", rules)
    bring(repo.root, {}, story.committed)
    repo.commit("committed")
    bring(repo.root, story.committed, story.found)
    if story.staged:
        repo.git("add", "--all")
    return repo


async def captured(shop: Workshop, repo: RepoBuilder, story: Story) -> Capture:
    """Return the capture of what a writer made, which is what Git itself would store."""
    worktree = await shop.worktree("fix")
    bring(worktree.root, as_found(worktree.root), story.made)
    expected = stored_by_git(RepoBuilder(worktree.root, repo.env), shop.state / "in-worktree")
    found = await shop.capture(worktree)
    assert found.tree == expected
    assert (found.nested, found.branch) == ((), None)
    return found


async def patch_applies(shop: Workshop, repo: RepoBuilder, found: Capture) -> None:
    """Hold that the patch makes the capture's tree out of the base, by Git's own hands."""
    target = shop.state / "fix.patch"
    await write_patch(shop.checkout, shop.snapshot.tree, found.tree, target)
    if not found.changes:
        assert target.read_bytes() == b""
        return
    place = shop.state / "patched"
    repo.git("worktree", "add", "--quiet", "--detach", str(place), shop.snapshot.commit)
    there = RepoBuilder(place, repo.env)
    there.git("apply", "--index", "--whitespace=nowarn", str(target))
    assert there.ask("write-tree") == found.tree


async def goes_in_and_out(shop: Workshop, repo: RepoBuilder, found: Capture) -> None:
    """Hold that what was brought in is the capture, and that taking it back is the identity."""
    before, entries = listing(repo.root), repo.git("ls-files", "--stage", "--debug")
    setting = Setting(shop.checkout, found.changes, before, {}, shop.state / "integration")
    journal = await execute(await setting.prepare())
    assert await verify_applied(shop.checkout, journal) == ()
    assert (await measure(shop.checkout, shop.scratch)).content_tree == found.tree
    await rollback(shop.checkout, journal)
    assert listing(repo.root) == before
    assert repo.git("ls-files", "--stage", "--debug") == entries


async def holds(story: Story, folder: Path) -> None:
    repo = build(story, folder)
    expected = stored_by_git(repo, folder / "expected")
    before = repo.facts()
    shop = await open_workshop(repo, folder / "state")
    assert shop.snapshot.tree == expected
    found = await captured(shop, repo, story)
    assert repo.facts() == before
    await patch_applies(shop, repo, found)
    links = [c for c in found.changes if SYMLINK_MODE in (c.old_mode, c.new_mode)]
    if found.changes and not links:
        await goes_in_and_out(shop, repo, found)


@pytest.mark.hypothesis
@settings(max_examples=EXAMPLES)
@given(stories)
def test_any_checkout_is_stored_captured_and_taken_back_exactly(story: Story) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trio.run(holds, story, Path(folder))
