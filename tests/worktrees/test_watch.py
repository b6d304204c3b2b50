import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repos import RUN, RepoBuilder
from tests.support.workshop import Workshop, open_workshop
from tests.worktrees.test_capture import writer
from worktrees.refs import base_ref
from worktrees.watch import differing, watch


def git_file(shop: Workshop, path: str, content: str) -> None:
    place = shop.checkout.git_dir / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)


RULES: dict[str, tuple[Callable[[RepoBuilder, Workshop], object], str]] = {
    "filter": (lambda edit, _: edit.git("config", "filter.x.clean", "cat"), "config filter.x"),
    "hooks path": (lambda edit, _: edit.git("config", "core.hooksPath", "x"), "config core.hooks"),
    "extension": (lambda edit, _: edit.git("config", "extensions.x", "1"), "config extensions.x"),
    "user's own settings": (
        lambda edit, _: edit.git("config", "--global", "core.excludesFile", "x"),
        "config core.excludesfile",
    ),
    "exclude": (lambda _, shop: git_file(shop, "info/exclude", "x"), "info/exclude"),
    "attributes": (lambda _, shop: git_file(shop, "info/attributes", "x"), "info/attributes"),
    "hook": (lambda _, shop: git_file(shop, "hooks/pre-commit", "x"), "hooks/pre-commit"),
    "pipe that nobody fills": (
        lambda _, shop: os.mkfifo(shop.checkout.git_dir / "hooks" / "wait"),
        "hooks/wait",
    ),
    "link to nothing": (
        lambda _, shop: (shop.checkout.git_dir / "hooks" / "lost").symlink_to("nowhere"),
        "hooks/lost",
    ),
    "alternates": (
        lambda _, shop: git_file(shop, "objects/info/alternates", "x"),
        "objects/info/alternates",
    ),
    "global ignore file": (
        lambda edit, _: edit.write(edit.home / "config/git/ignore", "x"),
        "config/git/ignore",
    ),
}


@pytest.mark.parametrize(("change", "named"), RULES.values(), ids=RULES.keys())
async def test_a_rule_that_a_writer_changed_is_named(
    change: Callable[[RepoBuilder, Workshop], object],
    named: str,
    repo: RepoBuilder,
    tmp_path: Path,
) -> None:
    shop = await open_workshop(repo, tmp_path / "state")
    worktree = await shop.worktree("fix")
    before = await watch(shop.checkout, worktree)
    change(writer(repo, worktree), shop)
    after = await watch(shop.checkout, worktree)
    names = differing(before.rules, after.rules)
    assert names
    assert all(named in name for name in names)
    assert (before.user_refs, before.own_refs) == (after.user_refs, after.own_refs)


async def test_settings_of_the_worktree_alone_count(repo: RepoBuilder, tmp_path: Path) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    shop = await open_workshop(repo, tmp_path / "state")
    worktree = await shop.worktree("fix")
    before = await watch(shop.checkout, worktree)
    edit = writer(repo, worktree)
    edit.git("config", "--worktree", "core.sparseCheckout", "true")
    (worktree.git_dir / "info").mkdir(exist_ok=True)
    (worktree.git_dir / "info/sparse-checkout").write_text("x\n")
    after = await watch(shop.checkout, worktree)
    assert differing(before.rules, after.rules) == (
        str(worktree.git_dir / "info/sparse-checkout"),
        "worktree config core.sparsecheckout",
    )


async def test_moved_refs_of_the_user_are_told_from_rules_and_from_ours(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    shop = await open_workshop(repo, tmp_path / "state")
    worktree = await shop.worktree("fix")
    before = await watch(shop.checkout, worktree)
    edit = writer(repo, worktree)
    edit.write("edited.txt", "after\n")
    edit.git("stash")
    edit.git("tag", "mine")
    edit.git("branch", "another")
    edit.git("update-ref", "refs/pinata/run-1/forged", "HEAD")
    repo.git("checkout", "--quiet", "-b", "elsewhere")
    after = await watch(shop.checkout, worktree)
    assert differing(before.rules, after.rules) == ()
    assert differing(before.user_refs, after.user_refs) == (
        "HEAD",
        "refs/heads/another",
        "refs/heads/elsewhere",
        "refs/stash",
        "refs/tags/mine",
    )
    assert before.own_refs == {base_ref(RUN): shop.snapshot.commit}
    assert differing(before.own_refs, after.own_refs) == ("refs/pinata/run-1/forged",)


async def test_ordinary_work_changes_nothing_that_is_watched(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    shop = await open_workshop(repo, tmp_path / "state")
    worktree = await shop.worktree("fix")
    before = await watch(shop.checkout)
    edit = writer(repo, worktree)
    edit.write("edited.txt", "after\n")
    edit.git("add", "--all")
    await shop.capture(worktree)
    assert await watch(shop.checkout) == before


async def test_links_and_the_right_to_run_count(repo: RepoBuilder, tmp_path: Path) -> None:
    shop = await open_workshop(repo, tmp_path / "state")
    (tmp_path / "target").write_text("one")
    git_file(shop, "hooks/one", "x")
    hook = shop.checkout.git_dir / "hooks/linked"
    hook.symlink_to(tmp_path / "target")
    repo.git("config", "core.attributesFile", "~/attributes")
    repo.git("config", "core.hooksPath", "own-hooks")
    repo.write("own-hooks/folder/x", "x")
    first = await watch(shop.checkout)
    (shop.checkout.git_dir / "hooks/one").chmod(0o755)
    (tmp_path / "target").write_text("two")
    (repo.home / "attributes").write_text("* text")
    repo.write("own-hooks/folder/x", "y")
    second = await watch(shop.checkout)
    assert differing(first.rules, second.rules) == tuple(
        sorted(
            [
                str(repo.home / "attributes"),
                str(repo.root / "own-hooks/folder/x"),
                str(hook),
                str(shop.checkout.git_dir / "hooks/one"),
            ]
        )
    )


async def test_without_a_home_there_are_no_files_of_the_user(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    homeless = type(found)(found.root, found.git_dir, found.common_dir, {"PATH": repo.env["PATH"]})
    assert (await watch(homeless)).rules == (await watch(found)).rules
