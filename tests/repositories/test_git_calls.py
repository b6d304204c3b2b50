"""Git is started in one place, and every call of it carries the same envelope."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.projects import PASS, Project, approves, builder, reviewer, shell, submits

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("agents", "checks", "engine", "pinata", "worktrees")
HYGIENE = "worktrees/hygiene.py"

# What a call takes over from its caller; everything else in its environment is fixed.
INHERITED = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_CONFIG_HOME"}
FIXED = {
    "LC_ALL": "C.UTF-8",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_AUTHOR_EMAIL": "pinata@localhost",
    "GIT_COMMITTER_EMAIL": "pinata@localhost",
}
SETTINGS = {
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "core.safecrlf=false",
    "gc.auto=0",
    "maintenance.auto=false",
}
# Calls made before the repository is known.
DISCOVERING = {"version", "rev-parse"}
# Commands that may write the index they are given.
INDEXING = {"status", "update-index", "read-tree", "write-tree", "checkout-index", "add", "apply"}
# Added by the shell that stands in for git.
NOT_OURS = {"PWD", "OLDPWD", "SHLVL", "_"}
# Begins the names of what marks a process as a run's.
MARK = "PINATA_"


def sources() -> Iterator[tuple[str, ast.Module]]:
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def names_git(node: ast.AST) -> bool:
    """Whether `node` is text that a program could be started by the name of."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str | bytes):
        return False
    text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
    return text == "git" or text.endswith("/git")


def starts_git(node: ast.AST) -> bool:
    """Whether a list of words begins with git, or it is handed to a call by itself."""
    if isinstance(node, ast.List | ast.Tuple):
        return bool(node.elts) and names_git(node.elts[0])
    if isinstance(node, ast.Call):
        return any(names_git(argument) for argument in node.args)
    return False


def test_no_module_but_one_starts_git() -> None:
    found = {name for name, tree in sources() if any(starts_git(n) for n in ast.walk(tree))}
    assert found == {HYGIENE}


def test_git_without_a_repository_is_asked_only_while_looking_for_one() -> None:
    users = {
        name
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "run_git"
    }
    assert users == {HYGIENE, "worktrees/discovery.py"}


@pytest.mark.parametrize(
    "text",
    [
        'run(["git", "gc"])',
        "x = ('/usr/bin/git',)",
        "ProcessSpec((b'git', *words))",
        "which('git')",
    ],
)
def test_the_scan_sees_git_being_started(text: str) -> None:
    assert any(starts_git(node) for node in ast.walk(ast.parse(text)))


@dataclass(frozen=True, slots=True)
class Call:
    """One call of git: its words, and its environment."""

    words: list[str]
    env: dict[str, str]

    @property
    def settings(self) -> set[str]:
        return {
            value for flag, value in zip(self.words, self.words[1:], strict=False) if flag == "-c"
        }

    @property
    def command(self) -> str:
        at = 0
        while self.words[at].startswith("-"):
            at += 2 if self.words[at] == "-c" else 1
        return self.words[at]

    @property
    def index(self) -> str | None:
        return self.env.get("GIT_INDEX_FILE")


def trace_git(project: Project) -> Path:
    """Let every call of git leave a file behind; return where."""
    calls = project.folder / "calls"
    calls.mkdir()
    folder = project.folder / "bin"
    folder.mkdir()
    found = [Path(entry, "git") for entry in project.repo.env["PATH"].split(":")]
    real = next(path for path in found if path.is_file())
    script = f'f=$(mktemp {calls}/XXXXXXXX); printf "%s\\0" "$@" > "$f"; env -0 > "$f.env"'
    (folder / "git").write_text(f'#!/bin/sh\n{script}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    project.repo.env["PATH"] = f"{folder}:{project.repo.env['PATH']}"
    return calls


def traced(calls: Path) -> list[Call]:
    found = []
    for path in sorted(calls.iterdir()):
        if path.suffix != ".env":
            env = path.with_name(f"{path.name}.env").read_text("utf-8").split("\0")[:-1]
            pairs = dict(one.split("=", 1) for one in env)
            found.append(Call(path.read_text("utf-8").split("\0")[:-1], pairs))
    return found


@pytest.mark.slow
@pytest.mark.unmeasured
async def test_every_call_of_a_whole_run_carries_the_envelope(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n", ".gitignore": "*.x\n"})
    project.repo.write("b.txt", "uncommitted\n")
    project.repo.write("new.txt", "untracked\n")
    project.repo.write(".worktreeinclude", "*.x\n")
    project.repo.write("local.x", "copied\n")
    project.repo.git("update-index", "--assume-unchanged", "a.txt")
    calls = trace_git(project)
    project.repo.env.update({"GIT_DIR": "/nowhere", "GIT_CONFIG_COUNT": "x", "SSH_ASKPASS": "/x"})
    answer = await project.run(
        [
            builder("one", "a.txt", checks=[{"id": "t", "argv": PASS}]),
            builder("two", "b.txt", "c.txt", after=["one"]),
            reviewer("see-one", "one"),
            reviewer("see-two", "two"),
        ],
        {
            "one": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "two": [shell("rm b.txt; : > c.txt"), submits(changedFiles=["b.txt", "c.txt"])],
            "see-one": [approves()],
            "see-two": [approves()],
        },
        integratedChecks=[{"id": "all", "argv": PASS}],
    )
    assert answer["status"] == "succeeded", answer
    await project.call("pinata_integrate", {"run": answer["run"]})
    await project.call("pinata_rollback", {"run": answer["run"], "confirm": True})
    found = traced(calls)
    assert {"status", "worktree", "update-ref", "checkout-index"} <= {c.command for c in found}
    assert [call.words for call in found if not call.settings >= SETTINGS] == []
    assert [call for call in found if any(call.env.get(k) != v for k, v in FIXED.items())] == []
    located = {"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE"}
    known = INHERITED | set(FIXED) | located | NOT_OURS
    known |= {"GIT_ASKPASS", "GIT_ALLOW_PROTOCOL", "GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"}
    names = {name for call in found for name in call.env if not name.startswith(MARK)}
    assert names - known == set()
    roots = {str(project.repo.root / ".git")}
    for call in found:
        if "GIT_DIR" not in call.env:
            assert call.command in DISCOVERING
            continue
        assert {"GIT_DIR", "GIT_WORK_TREE"} <= call.env.keys()
        linked = call.env["GIT_DIR"] not in roots
        assert linked == ("GIT_COMMON_DIR" in call.env)
        assert call.env.get("GIT_COMMON_DIR", call.env["GIT_DIR"]) in roots
        if call.command in INDEXING:
            assert call.index is not None, call.words
            # Neither the checkout's nor a worktree's own.
            assert Path(call.index).parent != Path(call.env["GIT_DIR"]), call.words
