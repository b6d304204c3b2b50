"""A run's evidence is built on that run's evidence alone, since all of it travels together."""

import pytest

from engine.core.ids import CommitId, RunId
from tests.support.repos import RUN, RepoBuilder
from worktrees.evidence import EvidenceTree, ForeignEvidenceError, ensure_evidence, keep_evidence
from worktrees.hygiene import Repository
from worktrees.refs import evidence_ref, read_ref

DOCUMENTS = {"manifest.json": b"{}", "writers/fix.json": b"{}", "writers/fix.patch": b"+x\n"}
MESSAGE = f"pinata: evidence of {RUN}"


@pytest.fixture
async def checkout(repo: RepoBuilder) -> Repository:
    return await repo.discovered()


def own_commit(repo: RepoBuilder, tree: str, message: str, *parents: str) -> str:
    """Store a commit as the engine itself writes them."""
    by = "pinata <pinata@localhost> 1 +0000"
    lines = [f"tree {tree}", *(f"parent {each}" for each in parents)]
    text = "\n".join([*lines, f"author {by}", f"committer {by}", "", message, ""])
    return (
        repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode())
        .decode()
        .strip()
    )


def planted(repo: RepoBuilder, path: str, *parents: str, message: str = MESSAGE) -> str:
    """Make the evidence ref hold a commit that looks like one of ours but for what is given."""
    row = f"100644 blob {repo.store(b'secret')}\t{path}\n".encode()
    tree = repo.git("mktree", stdin=row).decode().strip()
    commit = own_commit(repo, tree, message, *parents)
    repo.git("update-ref", evidence_ref(RUN), commit)
    return commit


async def test_evidence_upon_evidence_is_kept(checkout: Repository) -> None:
    first = await keep_evidence(checkout, RUN, EvidenceTree(DOCUMENTS, frozenset()), 1_000)
    more = DOCUMENTS | {"reviews/judge.json": b"{}"}
    second = await keep_evidence(checkout, RUN, EvidenceTree(more, frozenset()), 2_000)
    assert await read_ref(checkout, f"{second}^") == first
    await ensure_evidence(checkout, RUN, second)


async def test_commit_that_looks_like_evidence_in_every_respect_is_evidence(
    repo: RepoBuilder, checkout: Repository
) -> None:
    await ensure_evidence(checkout, RUN, CommitId(planted(repo, "manifest.json")))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("secret.txt", "evidence holds no secret.txt"),
        ("Secret", "no evidence holds a document named"),
        ("files", "evidence holds no files"),
    ],
)
async def test_nothing_is_built_on_a_tree_of_other_files(
    path: str, says: str, repo: RepoBuilder, checkout: Repository
) -> None:
    commit = planted(repo, path)
    ref = evidence_ref(RUN)
    with pytest.raises(ForeignEvidenceError, match=f"{ref} holds commit {commit}.*{says}.*delete"):
        await keep_evidence(checkout, RUN, EvidenceTree(DOCUMENTS, frozenset()), 1_000)
    assert await read_ref(checkout, ref) == commit


async def test_nothing_is_built_on_commits_that_pinata_did_not_write(
    repo: RepoBuilder, checkout: Repository
) -> None:
    head = repo.ask("rev-parse", "HEAD")
    strangers = [
        head,
        planted(repo, "manifest.json", head),
        planted(repo, "manifest.json", message="pinata: evidence of another"),
        planted(repo, "manifest.json", planted(repo, "secret.txt")),
        planted(repo, "a.json", planted(repo, "b.json"), planted(repo, "c.json")),
    ]
    for commit in strangers:
        with pytest.raises(ForeignEvidenceError):
            await ensure_evidence(checkout, RUN, CommitId(commit))
    with pytest.raises(ForeignEvidenceError, match="did not write it"):
        await ensure_evidence(checkout, RunId("run-2"), CommitId(planted(repo, "a.json")))


async def test_contents_are_under_their_own_names_and_no_submodules(
    repo: RepoBuilder, checkout: Repository
) -> None:
    blob, head = repo.store(b"x"), repo.ask("rev-parse", "HEAD")
    for row in (f"160000 commit {head}\t{head}", f"100644 blob {blob}\tother"):
        files = repo.git("mktree", stdin=f"{row}\n".encode()).decode().strip()
        tree = repo.git("mktree", stdin=f"040000 tree {files}\tfiles\n".encode()).decode().strip()
        commit = own_commit(repo, tree, MESSAGE)
        with pytest.raises(ForeignEvidenceError, match="is not what its name says"):
            await ensure_evidence(checkout, RUN, CommitId(commit))
