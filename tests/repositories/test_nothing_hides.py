"""Whatever a builder does to hide what it did is captured, fails its task, or is told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.projects import PASS, Project, builder, shell, submits, task_of

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

FILES: dict[str, str | bytes] = {
    "a.txt": "one\n",
    "b.txt": "b\n",
    "src/x.py": "x = 1\n",
    ".gitignore": "*.ignored\n/cache/\n",
}
COMMON = "$(git rev-parse --path-format=absolute --git-common-dir)"
OWN = "$(git rev-parse --absolute-git-dir)"
FLAG_B = "git update-index --assume-unchanged b.txt"
AS_SOMEBODY = "git -c user.name=x -c user.email=x@x"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, FILES)


async def fixed(
    project: Project, command: str, changed: Sequence[str] = (), **fields: object
) -> dict[str, Any]:
    """Return the summary of a builder that owns `a.txt` and runs a shell command."""
    answer = await project.run(
        [builder("fix", "a.txt", **fields)],
        {"fix": [shell(command), submits(changedFiles=list(changed))]},
    )
    return task_of(answer, "fix")


async def notices(project: Project, fix: dict[str, Any]) -> str:
    found = (await project.result(project.runs[-1], "fix")).get("notices", [])
    return "\n".join(found)


HIDDEN_RULES = {
    "ignore-rules": (f"echo b.txt > {COMMON}/info/exclude", "info/exclude"),
    "attributes": (f"echo '* -text' > {COMMON}/info/attributes", "info/attributes"),
    "filter": ("git config filter.x.clean cat", "config filter.x.clean"),
    "file-mode": ("git config core.fileMode false", "config core.filemode"),
    "ignore-file": ("git config core.excludesFile /x", "config core.excludesfile"),
    "attribute-file": ("git config core.attributesFile /x", "config core.attributesfile"),
    "hooks-path": ("git config core.hooksPath /x", "config core.hookspath"),
    "settings-of-home": ("git config --global core.excludesFile /x", "config core.excludesfile"),
    "ignore-rules-of-home": (
        'mkdir -p "$HOME/config/git" && echo "*" > "$HOME/config/git/ignore"',
        "config/git/ignore",
    ),
    "hook": (f"mkdir -p {COMMON}/hooks; echo x > {COMMON}/hooks/pre-push", "hooks/pre-push"),
    "foreign-objects": (
        f"mkdir -p {COMMON}/objects/info; echo /x > {COMMON}/objects/info/alternates",
        "objects/info/alternates",
    ),
    "engines-index": (
        f"GIT_INDEX_FILE=$(ls {COMMON}/pinata/*/indexes/fix) {FLAG_B}",
        "indexes/fix",
    ),
    "list-of-copies": (
        f"printf 'b.txt\\0' > $(dirname {COMMON}/pinata/*/indexes/fix)/fix.included",
        "fix.included",
    ),
}


@pytest.mark.parametrize(("command", "named"), HIDDEN_RULES.values(), ids=HIDDEN_RULES.keys())
async def test_change_of_what_decides_what_git_sees_fails_the_task(
    project: Project, command: str, named: str
) -> None:
    fix = await fixed(project, f"{command}; echo hidden > b.txt")
    assert fix["status"] == "failed"
    assert "it changed what decides what Git sees" in fix["reason"]
    assert named in fix["reason"]


async def test_another_common_folder_for_the_worktree_hides_nothing(project: Project) -> None:
    elsewhere = project.folder / "elsewhere"
    command = (
        f"cp -r {COMMON} {elsewhere}; echo '*.txt' > {elsewhere}/info/exclude; "
        f"echo {elsewhere} > {OWN}/commondir; echo x > new.txt"
    )
    fix = await fixed(project, command)
    assert fix["status"] == "failed"
    assert "commondir" in fix["reason"]
    assert fix["changedFiles"] == ["new.txt"]


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
async def test_edit_behind_a_flag_of_the_index_is_captured(project: Project, flag: str) -> None:
    fix = await fixed(project, f"git update-index {flag} a.txt b.txt; echo two | tee a.txt b.txt")
    assert fix["changedFiles"] == ["a.txt", "b.txt"]
    assert fix["reason"] == "it changed what it does not own: b.txt"


@pytest.mark.parametrize(
    "command",
    [
        "rm .git",
        "echo 'gitdir: /nowhere' > .git",
        "rm .git; git init -q; git add -A",
        "rm .git; mkdir .git",
        f"rm {OWN}/index",
        f"touch {OWN}/index.lock",
    ],
    ids=["deleted", "edited", "a-repository-instead", "a-folder-instead", "no-index", "locked"],
)
async def test_state_of_the_worktrees_own_git_file_makes_no_difference(
    project: Project, command: str
) -> None:
    fix = await fixed(project, f"{command}; echo two > a.txt", ["a.txt"])
    assert (fix["status"], fix["changedFiles"]) == ("succeeded", ["a.txt"])


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (f"{AS_SOMEBODY} commit -qam x", "it moved HEAD of its worktree"),
        ("git checkout -q -b mine", "switched HEAD of its worktree to refs/heads/mine"),
        ("git symbolic-ref HEAD refs/heads/unborn", "it moved HEAD of its worktree"),
        ("git checkout -q --orphan mine", "it moved HEAD of its worktree"),
        (
            f"git branch x && own={OWN} && rm $own/HEAD && ln -s refs/heads/x $own/HEAD",
            "switched HEAD of its worktree to refs/heads/x",
        ),
    ],
    ids=["commit", "branch-at-the-same-commit", "unborn-branch", "orphan", "symbolic-link"],
)
async def test_head_that_does_not_stand_still_fails_the_task(
    project: Project, command: str, reason: str
) -> None:
    fix = await fixed(project, f"echo two > a.txt; {command}", ["a.txt"])
    assert fix["status"] == "failed"
    assert reason in fix["reason"]


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("git tag mine", "refs/tags/mine"),
        ("git branch mine", "refs/heads/mine"),
        (f"echo two > b.txt; {AS_SOMEBODY} stash -q", "refs/stash"),
        ("git update-ref refs/heads/main $(git commit-tree -m x HEAD^{tree})", "refs/heads/main"),
    ],
    ids=["tag", "branch", "stash", "users-branch"],
)
async def test_moved_ref_of_the_user_is_told_since_the_user_may_have_moved_it(
    project: Project, command: str, named: str
) -> None:
    identity = "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x"
    fix = await fixed(project, f"{identity} GIT_COMMITTER_EMAIL=x; {command}")
    assert fix["status"] == "succeeded"
    assert f"{named} moved in the user's repository" in await notices(project, fix)


async def test_moved_ref_is_told_once_although_it_is_looked_for_after_the_checks_too(
    project: Project,
) -> None:
    fix = await fixed(project, "git tag mine", checks=[{"id": "t", "argv": PASS}])
    assert fix["status"] == "succeeded"
    assert (await notices(project, fix)).count("refs/tags/mine moved") == 1


async def test_ref_that_is_put_among_those_of_the_run_fails_the_task(project: Project) -> None:
    base = "$(git for-each-ref --format='%(refname)' 'refs/pinata/*/base')"
    fix = await fixed(project, f"git update-ref {base}-forged HEAD")
    assert fix["status"] == "failed"
    assert fix["reason"].startswith("refs of the run were moved: refs/pinata/")
    assert fix["reason"].endswith("/base-forged")


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("git init -q vendor; echo x > vendor/x", "vendor"),
        ("git init -q vendor; cd vendor; git commit --allow-empty -qm x", "vendor"),
        ("mkdir -p deep/er/.git; echo x > deep/er/.git/x", "deep/er"),
        ("echo x > src/.git", "src"),
        ("git init -q src; echo x > src/hidden.py; rm src/hidden.py", "src"),
    ],
    ids=["empty", "with-a-commit", "only-a-name", "file", "around-tracked-files"],
)
async def test_place_that_git_does_not_look_into_fails_the_task_by_name(
    project: Project, command: str, named: str
) -> None:
    identity = "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x"
    fix = await fixed(project, f"{identity} GIT_COMMITTER_EMAIL=x; {command}")
    assert fix["reason"] == f"it put repositories or submodules into its worktree: {named}"


def with_submodule(project: Project) -> None:
    other = type(project.repo).create(project.folder / "lib", {"lib.txt": "lib\n"})
    project.repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), "lib"
    )
    project.repo.commit("a submodule")


@pytest.mark.parametrize(
    "command",
    [
        "echo x > lib/hidden",
        "git clone -q $SOURCE lib; echo hidden >> lib/.git/info/exclude; echo x > lib/hidden",
        "rmdir lib",
        "rmdir lib; echo x > lib",
        "git update-index --cacheinfo 160000,$(git rev-parse HEAD),lib; git clone -q . lib",
    ],
    ids=["written", "clone-with-ignored-file", "removed", "replaced", "other-commit"],
)
async def test_what_is_done_to_a_submodule_fails_the_task_by_name(
    project: Project, command: str
) -> None:
    with_submodule(project)
    fix = await fixed(project, f"SOURCE={project.folder / 'lib'}; {command}")
    assert fix["status"] == "failed"
    assert fix["reason"] == "it put repositories or submodules into its worktree: lib"


async def test_submodule_that_git_cannot_read_fails_the_task_by_name(project: Project) -> None:
    with_submodule(project)
    fix = await fixed(project, "mkdir lib/.git; echo x > lib/hidden")
    assert fix["reason"] == "it wrote into submodules, and Git cannot read them: lib"


async def test_submodule_that_setup_initialised_may_stay_and_not_be_written_into(
    project: Project,
) -> None:
    with_submodule(project)
    setup = f"git clone -q {project.folder / 'lib'} lib"
    for command, reason in (("true", None), ("echo x >> lib/.git/info/exclude", "lib")):
        answer = await project.run(
            [builder("fix", "a.txt")],
            {"fix": [shell(command), submits()]},
            config={"setup": setup},
        )
        fix = task_of(answer, "fix")
        if reason is None:
            assert fix["status"] == "succeeded", fix
        else:
            assert fix["reason"].endswith("into its worktree: lib")


async def test_ignored_files_that_a_check_could_see_are_named(project: Project) -> None:
    fix = await fixed(
        project,
        "echo x > x.ignored; mkdir cache && echo x > cache/x; echo '*' > src/.gitignore",
    )
    assert fix["status"] == "succeeded"
    told = await notices(project, fix)
    assert "could be seen by checks: cache/, src/.gitignore and x.ignored" in told


async def test_at_most_ten_ignored_files_are_named(project: Project) -> None:
    fix = await fixed(project, "for n in 0 1 2 3 4 5 6 7 8 9 a b; do echo x > $n.ignored; done")
    assert "9.ignored and 2 more" in await notices(project, fix)


async def test_ignored_file_that_was_there_before_is_named_only_if_it_changed(
    project: Project,
) -> None:
    project.repo.write(".worktreeinclude", "*.ignored\n")
    project.repo.write("same.ignored", "same\n")
    project.repo.write("edited.ignored", "before\n")
    project.repo.write("gone.ignored", "gone\n")
    project.repo.commit("which ignored files to bring")
    # A forged time of the last modification does not help: the size is the same, too.
    forge = "touch -r a.txt edited.ignored"
    fix = await fixed(project, f"echo aftter > edited.ignored; {forge}; rm gone.ignored")
    told = await notices(project, fix)
    assert "could be seen by checks: edited.ignored and gone.ignored" in told


async def test_what_a_check_does_to_the_rules_fails_the_task_too(project: Project) -> None:
    plant = ["sh", "-c", f"echo b.txt > {COMMON}/info/exclude; echo hidden > b.txt"]
    fix = await fixed(project, "true", checks=[{"id": "t", "argv": plant}])
    assert fix["status"] == "failed"
    assert fix["reason"].startswith("while its checks ran, it changed what decides what Git sees")
    assert "info/exclude" in fix["reason"]


async def test_name_that_git_never_stores_fails_the_task(project: Project) -> None:
    fix = await fixed(project, "mkdir .GIT; echo x > .GIT/x")
    assert fix["status"] == "failed"
    assert ".GIT/x" in fix["reason"]
