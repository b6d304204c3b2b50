from pathlib import Path

import pytest

from engine.core.changes import Change
from engine.core.ids import TaskId, TreeId
from tests.support.repos import RepoBuilder
from tests.support.workshop import open_workshop
from tests.worktrees.test_capture import letters, writer
from worktrees.compose import PathConflictError, compose
from worktrees.objects import commit_tree
from worktrees.patch import changes_between

A, B = TaskId("a"), TaskId("b")


async def changes_of(
    repo: RepoBuilder, base: TreeId, files: dict[str, str | None]
) -> tuple[Change, ...]:
    """Return the changes from `base` that write or remove `files`."""
    env = {"GIT_INDEX_FILE": str(repo.home / "index")}
    repo.git("read-tree", base, env=env)
    gone = b"".join(path.encode() + b"\0" for path, text in files.items() if text is None)
    repo.git("update-index", "--force-remove", "-z", "--stdin", stdin=gone, env=env)
    lines = [
        f"100644 {repo.store(text.encode())}\t{path}\0"
        for path, text in files.items()
        if text is not None
    ]
    stdin = "".join(lines).encode()
    repo.git("update-index", "--add", "--replace", "-z", "--index-info", stdin=stdin, env=env)
    tree = TreeId(repo.git("write-tree", env=env).decode().strip())
    return await changes_between(await repo.discovered(), base, tree)


def base_of(repo: RepoBuilder) -> TreeId:
    return TreeId(repo.ask("rev-parse", "HEAD^{tree}"))


async def test_a_third_writer_sees_two_predecessors_and_changes_only_its_own(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    shop = await open_workshop(repo, tmp_path / "state")
    made = []
    for name in ("a", "b"):
        worktree = await shop.worktree(name)
        edit = writer(repo, worktree)
        edit.write(f"{name}.txt", name)
        edit.write("edited.txt" if name == "a" else "folder/inner.txt", name)
        made.append((TaskId(name), (await shop.capture(worktree)).changes))
    tree = await compose(shop.checkout, shop.snapshot.tree, made)
    commit = await commit_tree(shop.checkout, [shop.snapshot.commit], tree, "base\n", 0)
    third = await shop.worktree("third", commit)
    for path, content in {"a.txt": "a", "edited.txt": "a", "folder/inner.txt": "b"}.items():
        assert (third.root / path).read_text() == content
    writer(repo, third).write("c.txt", "c")
    assert letters(await shop.capture(third, tree)) == {b"c.txt": "A"}


async def test_a_successor_builds_on_what_its_predecessor_left(repo: RepoBuilder) -> None:
    base, found = base_of(repo), await repo.discovered()
    first = await changes_of(repo, base, {"edited.txt": "one", "new.txt": "new"})
    middle = await compose(found, base, [(A, first)])
    second = await changes_of(repo, middle, {"edited.txt": "two", "new.txt": None})
    tree = await compose(found, base, [(A, first), (B, second)])
    assert repo.content(tree, "edited.txt") == b"two"
    assert b"new.txt" not in repo.listing(tree)
    assert await compose(found, base, []) == base


@pytest.mark.parametrize(
    ("first", "second", "path"),
    [
        ({"edited.txt": "one"}, {"edited.txt": "two"}, b"edited.txt"),
        ({"edited.txt": None}, {"edited.txt": "two"}, b"edited.txt"),
        ({"edited.txt": "one"}, {"edited.txt": None}, b"edited.txt"),
        ({"new.txt": "one"}, {"new.txt": "one"}, b"new.txt"),
        ({"new": "one"}, {"new/inner.txt": "two"}, b"new"),
        ({"new/inner.txt": "one"}, {"new": "two"}, b"new"),
        ({"folder/more.txt": "one"}, {"folder": "flat", "folder/inner.txt": None}, b"folder"),
    ],
    ids=[
        "two edits",
        "edit of a deleted file",
        "deletion of an edited file",
        "equal additions",
        "a file where a folder is needed",
        "a folder where a file is needed",
        "a folder that is not empty any more",
    ],
)
async def test_a_path_found_otherwise_is_a_conflict_naming_it_and_the_task(
    first: dict[str, str | None], second: dict[str, str | None], path: bytes, repo: RepoBuilder
) -> None:
    base, found = base_of(repo), await repo.discovered()
    both = [
        (A, await changes_of(repo, base, first)),
        (B, await changes_of(repo, base, second)),
    ]
    with pytest.raises(PathConflictError, match="task 'b'") as refused:
        await compose(found, base, both)
    assert (refused.value.path, refused.value.task) == (path, B)


async def test_file_and_folder_change_places_in_one_change(repo: RepoBuilder) -> None:
    base, found = base_of(repo), await repo.discovered()
    swap: dict[str, str | None] = {
        "folder": "flat",
        "folder/inner.txt": None,
        "kept.txt": None,
        "kept.txt/x": "deep",
    }
    changes = await changes_of(repo, base, swap)
    tree = await compose(found, base, [(A, changes)])
    assert repo.content(tree, "folder") == b"flat"
    assert repo.content(tree, "kept.txt/x") == b"deep"
    assert await changes_between(found, base, tree) == changes
