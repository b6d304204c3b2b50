import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from engine.core.errors import ConflictError, CorruptionError
from engine.core.ids import CommitId, TreeId
from tests.support.repos import RepoBuilder
from worktrees.hygiene import Repository
from worktrees.objects import (
    ObjectStore,
    PathOccupiedError,
    TreeEntry,
    commit_tree,
    read_commit_tree,
    read_entries,
    with_objects,
)


async def edited(
    repo: RepoBuilder, tree: str, edits: dict[bytes, TreeEntry | None]
) -> dict[bytes, tuple[str, str]]:
    found = await repo.discovered()
    return repo.listing(await with_objects(found, lambda store: store.edit(tree, edits)))


async def test_objects_are_read_by_id(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    head = CommitId(repo.ask("rev-parse", "HEAD"))
    tree = TreeId(repo.ask("rev-parse", "HEAD^{tree}"))
    assert await read_commit_tree(found, head) == tree
    assert await read_entries(found, tree, [b"folder", b"folder/inner.txt", b"kept.txt/x"]) == {
        b"folder": TreeEntry("040000", repo.ask("rev-parse", "HEAD:folder")),
        b"folder/inner.txt": TreeEntry("100644", repo.ask("rev-parse", "HEAD:folder/inner.txt")),
        b"kept.txt/x": None,
    }


async def test_a_missing_object_and_one_of_another_type_are_damage(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    with pytest.raises(CorruptionError, match="1111"):
        await read_commit_tree(found, CommitId("1" * 40))
    with pytest.raises(CorruptionError, match="not a commit"):
        await read_commit_tree(found, CommitId(repo.ask("rev-parse", "HEAD:kept.txt")))


async def test_a_repository_that_cannot_be_opened_is_refused(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    nowhere = Repository(found.root, found.git_dir, found.root / "nowhere", found.env)
    with pytest.raises(ConflictError, match="not supported"):
        await read_commit_tree(nowhere, CommitId("1" * 40))


async def test_a_commit_depends_on_its_input_alone(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    head = CommitId(repo.ask("rev-parse", "HEAD"))
    tree = TreeId(repo.ask("rev-parse", "HEAD^{tree}"))
    commit = await commit_tree(found, [head], tree, "message\n", 1_600_000_000_999)
    assert commit == await commit_tree(found, [head], tree, "message\n", 1_600_000_000_000)
    assert repo.ask("cat-file", "commit", commit) == (
        f"tree {tree}\nparent {head}\n"
        "author pinata <pinata@localhost> 1600000000 +0000\n"
        "committer pinata <pinata@localhost> 1600000000 +0000\n"
        "\nmessage"
    )
    assert repo.ask("rev-list", "--max-parents=0", await commit_tree(found, [], tree, "", 0))


async def test_edits_put_and_remove_by_path(repo: RepoBuilder) -> None:
    before = repo.listing("HEAD")
    new = TreeEntry("100755", repo.store(b"new"))
    after = await edited(
        repo,
        repo.ask("rev-parse", "HEAD^{tree}"),
        {
            b"deep/er/new-\xe9": new,
            b"folder/inner.txt": None,
            b"kept.txt": new,
            b"absent/nothing": None,
            b"edited.txt/below-a-file": None,
            b"absent.txt": None,
        },
    )
    del before[b"folder/inner.txt"]
    before[b"kept.txt"] = before[b"deep/er/new-\xe9"] = (new.mode, new.object_id)
    assert after == before


async def test_modes_of_old_repositories_are_read_as_git_reads_them(repo: RepoBuilder) -> None:
    blob = repo.store(b"x")
    raw = b"".join(
        mode + b" " + name + b"\0" + bytes.fromhex(blob)
        for mode, name in ((b"100664", b"a"), (b"100775", b"b"))
    )
    stdin, literally = raw, ("-t", "tree", "--literally", "-w", "--stdin")
    tree = TreeId(repo.git("hash-object", *literally, stdin=stdin).decode().strip())
    assert await read_entries(await repo.discovered(), tree, [b"a", b"b"]) == {
        b"a": TreeEntry("100644", blob),
        b"b": TreeEntry("100755", blob),
    }


async def test_file_and_folder_change_places(repo: RepoBuilder) -> None:
    tree = repo.ask("rev-parse", "HEAD^{tree}")
    new = TreeEntry("100644", repo.store(b"new"))
    flat = await edited(repo, tree, {b"folder": new, b"folder/inner.txt": None})
    assert flat[b"folder"] == ("100644", new.object_id)
    deep = await edited(repo, tree, {b"kept.txt": None, b"kept.txt/x": new})
    assert deep[b"kept.txt/x"] == ("100644", new.object_id)


async def test_what_stands_in_the_way_is_named(repo: RepoBuilder) -> None:
    tree = repo.ask("rev-parse", "HEAD^{tree}")
    new = TreeEntry("100644", repo.store(b"new"))
    with pytest.raises(PathOccupiedError, match=r"kept\.txt .*a file lies"):
        await edited(repo, tree, {b"kept.txt/x": new})
    with pytest.raises(PathOccupiedError, match=r"folder .*not empty"):
        await edited(repo, tree, {b"folder": new})
    with pytest.raises(PathOccupiedError, match=r"folder/inner\.txt"):
        await edited(repo, tree, {b"folder/inner.txt/x": new})


names = st.sampled_from([b"a", b"a.b", b"a-b", b"a0", b"\xff", b"b", b" "])
paths = st.lists(names, min_size=1, max_size=3).map(b"/".join)


def without_collisions(wanted: list[bytes]) -> list[bytes]:
    kept: list[bytes] = []
    for path in wanted:
        if not any(
            path == other or path.startswith(other + b"/") or other.startswith(path + b"/")
            for other in kept
        ):
            kept.append(path)
    return kept


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(wanted=st.lists(paths, max_size=8).map(without_collisions))
def test_a_written_tree_is_the_one_that_git_writes(repo: RepoBuilder, wanted: list[bytes]) -> None:
    place = Repository(repo.root, repo.root / ".git", repo.root / ".git", repo.env)
    blob = repo.store(b"x")
    store = ObjectStore(place)
    tree = store.edit(store.write_tree({}), {path: TreeEntry("100644", blob) for path in wanted})
    index = {"GIT_INDEX_FILE": str(repo.home / "index")}
    repo.git("read-tree", "--empty", env=index)
    lines = b"".join(b"100644 %s\t%s\0" % (blob.encode(), path) for path in wanted)
    repo.git("update-index", "-z", "--index-info", stdin=lines, env=index)
    assert tree == repo.git("write-tree", env=index).decode().strip()
