import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from engine.core.changes import Change
from tests.support.repos import RepoBuilder
from tests.worktrees.test_objects import paths, without_collisions
from worktrees.compare import compare
from worktrees.hygiene import Repository
from worktrees.objects import ObjectStore, TreeEntry, UnreadableObjectError
from worktrees.patch import _decode_changes

modes = st.sampled_from(["100644", "100755", "120000"])
contents = st.dictionaries(paths, st.tuples(modes, st.sampled_from([b"x", b"y"])), max_size=8)


def opened(repo: RepoBuilder) -> ObjectStore:
    return ObjectStore(Repository(repo.root, repo.root / ".git", repo.root / ".git", repo.env))


def by_git(repo: RepoBuilder, before: str, after: str) -> tuple[Change, ...]:
    return _decode_changes(
        repo.git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", before, after)
    )


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(before=contents, after=contents)
def test_two_trees_differ_as_git_says(
    repo: RepoBuilder,
    before: dict[bytes, tuple[str, bytes]],
    after: dict[bytes, tuple[str, bytes]],
) -> None:
    store = opened(repo)
    blobs = {content: repo.store(content) for content in (b"x", b"y")}
    first, second = (
        store.edit(
            store.write_tree({}),
            {
                path: TreeEntry(wanted[path][0], blobs[wanted[path][1]])
                for path in without_collisions(list(wanted))
            },
        )
        for wanted in (before, after)
    )
    assert compare(store, first, second, most_folders=100) == by_git(repo, first, second)


def test_commits_stand_for_their_trees(repo: RepoBuilder) -> None:
    store, first = opened(repo), repo.ask("rev-parse", "HEAD")
    (repo.root / "kept.txt").unlink()
    repo.write("kept.txt/deep/er.txt", "x")
    second = repo.commit("second")
    assert compare(store, first, second, most_folders=100) == by_git(repo, first, second)


def test_too_many_folders_are_left_to_another_way(repo: RepoBuilder) -> None:
    store, first = opened(repo), repo.ask("rev-parse", "HEAD")
    repo.write("a/b/c/d.txt", "x")
    second = repo.commit("second")
    assert compare(store, first, second, most_folders=3) is None
    assert compare(store, first, second, most_folders=4) is not None


def test_a_missing_object_is_damage(repo: RepoBuilder) -> None:
    with pytest.raises(UnreadableObjectError, match="1111"):
        compare(opened(repo), "1" * 40, "2" * 40, most_folders=9)
