from pathlib import Path

import pytest

from engine.core.errors import ConflictError, UsageError
from engine.core.github import Hosted
from engine.core.ids import CommitId
from tests.support.github import ADDRESS, NUMBER, Github
from tests.support.repos import RUN, RepoBuilder
from worktrees.hygiene import GitError, git_fetch
from worktrees.refs import pull_ref
from worktrees.subject import (
    PullRequestMovedError,
    PullSpec,
    difference,
    fetch_pull_request,
    find_commit,
)

HEAD_REF, BASE_REF = (pull_ref(RUN, NUMBER, end) for end in ("head", "base"))


@pytest.fixture
def hub(repo: RepoBuilder, tmp_path: Path) -> Github:
    return Github.open(repo, tmp_path)


def pull(hub: Github, head: CommitId | None = None, branch: str = "main") -> PullSpec:
    shop = Hosted("github.com", "example", "shop")
    return PullSpec(NUMBER, shop, branch, head or hub.head, {})


async def test_a_revision_is_whatever_git_takes_for_one_commit(repo: RepoBuilder) -> None:
    first = CommitId(repo.ask("rev-parse", "HEAD"))
    repo.git("tag", "--annotate", "--message=one", "v1")
    second = repo.commit("second")
    found = await repo.discovered()
    for name, commit in [("HEAD", second), ("v1", first), ("main~1", first), (second[:9], second)]:
        assert await find_commit(found, name) == commit


@pytest.mark.parametrize(
    "revision",
    ["gone", "--output=owned", "-", "^HEAD", "HEAD..HEAD", "HEAD:kept.txt", "HEAD^{tree}", "@{9}"],
)
async def test_what_is_no_commit_is_refused_and_never_an_option(
    repo: RepoBuilder, revision: str
) -> None:
    with pytest.raises(UsageError, match="there is no such revision here"):
        await find_commit(await repo.discovered(), revision)
    assert not (repo.root / "owned").exists()


async def test_a_difference_begins_where_both_sides_part(repo: RepoBuilder) -> None:
    parted = CommitId(repo.ask("rev-parse", "HEAD"))
    repo.git("branch", "other")
    repo.write("edited.txt", "ours\n")
    ours = repo.commit("ours")
    repo.git("checkout", "--quiet", "other")
    repo.write("theirs.txt", "theirs\n")
    theirs = repo.commit("theirs")
    found = await difference(await repo.discovered(), theirs, ours, ours)
    assert (found.base, found.head) == (parted, ours)
    assert found.base_tree == repo.ask("rev-parse", f"{parted}^{{tree}}")
    assert found.head_tree == repo.ask("rev-parse", f"{ours}^{{tree}}")
    assert [change.path for change in found.changes] == [b"edited.txt"]


async def test_histories_without_a_common_commit_have_no_difference(repo: RepoBuilder) -> None:
    ours = CommitId(repo.ask("rev-parse", "HEAD"))
    repo.git("checkout", "--quiet", "--orphan", "island")
    theirs = repo.commit("island")
    with pytest.raises(UsageError, match="no commit in common"):
        await difference(await repo.discovered(), theirs, ours, ours)


async def test_no_difference_is_nothing_to_review(repo: RepoBuilder) -> None:
    head = CommitId(repo.ask("rev-parse", "HEAD"))
    with pytest.raises(ConflictError, match="there is nothing to review: nothing differs from"):
        await difference(await repo.discovered(), head, head, head)


async def test_a_pull_request_comes_in_below_our_refs_and_moves_nothing_else(
    hub: Github,
) -> None:
    hub.upstream.git("tag", "v1", hub.head)
    hub.repo.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    hub.repo.git("config", "fetch.prune", "true")
    hub.repo.git("update-ref", "refs/remotes/origin/main", "HEAD")
    hub.repo.add_hooks(hub.folder / "trace")
    before = hub.repo.facts()
    listed = hub.repo.ask("for-each-ref", "--format=%(refname)").splitlines()
    branch = await fetch_pull_request(await hub.repo.discovered(), RUN, pull(hub))
    assert branch == hub.upstream.ask("rev-parse", "main")
    assert hub.repo.ask("rev-parse", HEAD_REF) == hub.head
    assert hub.repo.ask("rev-parse", BASE_REF) == branch
    now = hub.repo.ask("for-each-ref", "--format=%(refname)").splitlines()
    assert sorted(now) == sorted([*listed, HEAD_REF, BASE_REF])
    assert hub.repo.facts() == before
    assert not (hub.repo.root / ".git/FETCH_HEAD").exists()
    assert not (hub.folder / "trace").exists()


async def test_a_head_that_is_not_the_named_one_is_refused(hub: Github) -> None:
    named = hub.head
    hub.upstream.write("a.txt", "once more\n")
    now = hub.push()
    with pytest.raises(PullRequestMovedError, match="changed while fetching") as caught:
        await fetch_pull_request(await hub.repo.discovered(), RUN, pull(hub, named))
    assert (caught.value.named, caught.value.fetched) == (named, now)


async def test_a_branch_that_is_no_commit_is_refused(hub: Github) -> None:
    blob = hub.upstream.store(b"no commit\n")
    (hub.upstream.root / ".git/refs/heads/odd").write_text(f"{blob}\n")
    with pytest.raises(ConflictError, match="the branch odd, which it goes into, is no commit"):
        await fetch_pull_request(await hub.repo.discovered(), RUN, pull(hub, branch="odd"))


async def test_a_pull_request_that_is_not_there_changes_no_ref(hub: Github) -> None:
    hub.upstream.git("update-ref", "-d", "refs/pull/7/head", hub.head)
    spec = pull(hub, CommitId("1" * 40))
    with pytest.raises(GitError, match=r"git fetch exited with 128: .*refs/pull/7/head"):
        await fetch_pull_request(await hub.repo.discovered(), RUN, spec)
    assert hub.repo.ask("for-each-ref", "refs/pinata") == ""


async def test_a_fetch_speaks_nothing_but_the_named_protocol(hub: Github) -> None:
    refspecs = ("refs/heads/main:refs/pinata/run-1/pr/7/base",)
    repo = await hub.repo.discovered()
    with pytest.raises(GitError, match="transport 'file' not allowed"):
        await git_fetch(repo, ADDRESS, refspecs, protocol="https", access={})
    with pytest.raises(GitError, match="transport 'ext' not allowed"):
        await git_fetch(repo, "ext::touch owned", refspecs, protocol="file", access={})
    with pytest.raises(GitError, match="git fetch exited with"):
        await git_fetch(repo, "--upload-pack=touch owned", refspecs, protocol="file", access={})
    assert not (hub.repo.root / "owned").exists()


async def test_a_failed_fetch_shows_no_password(hub: Github) -> None:
    hub.repo.git("config", "url./nowhere/.insteadOf", "https://someone:secret@github.com/")
    address = "https://someone:secret@github.com/example/shop.git"
    with pytest.raises(GitError, match="git fetch exited with 128") as caught:
        await git_fetch(await hub.repo.discovered(), address, ("a:b",), protocol="file", access={})
    assert "secret" not in str(caught.value)


async def test_what_lets_git_in_reaches_the_fetch_alone(hub: Github) -> None:
    program = hub.folder / "git"
    real = hub.repo.env["PATH"].split(":", 1)[1]
    program.write_text(
        f'#!/bin/sh\n[ -z "$GH_TOKEN" ] || echo "$*" "$GH_TOKEN" "$GIT_TERMINAL_PROMPT" '
        f'"ask:$GIT_ASKPASS:$SSH_ASKPASS" >> {hub.folder}/seen\n'
        f'PATH={real} exec git "$@"\n'
    )
    program.chmod(0o755)
    spec = pull(hub)
    spec = PullSpec(spec.number, spec.repository, spec.branch, spec.head, {"GH_TOKEN": "secret"})
    repo = await hub.repo.discovered()
    await fetch_pull_request(repo, RUN, spec)
    (line,) = (hub.folder / "seen").read_text().splitlines()
    assert " fetch --quiet --atomic --no-tags " in line
    assert line.endswith(" secret 0 ask::")
