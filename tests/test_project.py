"""The project's text keeps its promises: nothing hidden, nothing dangling, nothing overgrown."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.smoke, pytest.mark.unmeasured]

ROOT = Path(__file__).resolve().parents[1]
PARTS = {"pinata", "engine", "worktrees", "checks", "agents"}
LONGEST_MODULE = 400
# Spelled in pieces where this file would hold what it forbids.
REGISTRIES = ("pypi" + ".org", "python" + "hosted", "registry." + "npmjs", "crates" + ".io")
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root)/\w")
UNFINISHED = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
EXCUSED = re.compile(r"pytest\.(?:mark\.)?(?:skip|xfail|importorskip)")
EXEMPTION = re.compile(r"#\s*(?:noqa|type: ignore|pragma: no \w+)\b")
EXEMPTION_WITH_REASON = re.compile(
    r"# (?:noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*|type: ignore\[[\w-]+(?:, ?[\w-]+)*\]|pragma: no \w+)"
    r"[ #:(-]+\w.{7,}"
)
CASE_ID = re.compile(
    r"\b(?:VAL|OWN|TOOL|SCH|LIM|BUD|BRF|SUB|GRD|LIVE|SNAP|SET|INC|CAP|WRI|CHK|REV|REP|STA|CHG|INT|VER"
    r"|ROL|BG|STO|CFG|AGT|GC|CLI|VIEW|PERF)-\d+\b"
)
TEST_ID = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)?)`")
PINNED = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+")


def known_files() -> list[Path]:
    """Return the files that are in Git or would be added to it, whoever runs the tests."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        env=plain,
        check=True,
        capture_output=True,
    ).stdout.decode()
    return [ROOT / name for name in sorted(set(listed.split("\0"))) if (ROOT / name).is_file()]


FILES = known_files()
DOCUMENTS = [path for path in FILES if path.suffix == ".md" and "fixtures" not in path.parts]
MODULES = [
    path
    for path in FILES
    if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PARTS | {"tests", "benchmarks"}
]
SOURCES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in PARTS]
TESTS = [path for path in MODULES if path.relative_to(ROOT).parts[0] == "tests"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def lines_where(says: Callable[[str], object], paths: list[Path]) -> list[str]:
    return [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if says(line)
    ]


def nodes_of(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(text_of(path)))


def places_of_attribute(owner: str, names: set[str], paths: list[Path]) -> list[str]:
    """Return where `owner.name` stands in code, not in strings or comments."""
    return [
        f"{name_of(path)}:{node.lineno}"
        for path in paths
        if any(name in text_of(path) for name in names)  # Few need to be parsed.
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == owner
        and node.attr in names
    ]


def test_no_file_names_a_package_registry() -> None:
    assert lines_where(lambda line: any(host in line for host in REGISTRIES), FILES) == []


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    assert lines_where(MACHINE_PATH.search, FILES) == []


def test_nothing_is_left_for_later_in_a_comment() -> None:
    assert lines_where(UNFINISHED.search, FILES) == []


def test_no_test_is_excused() -> None:
    assert lines_where(EXCUSED.search, TESTS) == []


def test_no_test_sleeps() -> None:
    assert places_of_attribute("time", {"sleep"}, TESTS) == []


def test_every_exemption_names_its_rule_and_its_reason() -> None:
    bare = lines_where(
        lambda line: EXEMPTION.search(line) and not EXEMPTION_WITH_REASON.search(line), MODULES
    )
    assert bare == []


def test_every_logger_hangs_below_pinata() -> None:
    named_alike = '_log = logging.getLogger(f"pinata.{__name__}")'
    assert lines_where(lambda line: "getLogger(" in line and line != named_alike, SOURCES) == []


def test_no_module_is_longer_than_can_be_read_at_once() -> None:
    lengths = {name_of(path): len(text_of(path).splitlines()) for path in SOURCES}
    assert {name: count for name, count in lengths.items() if count > LONGEST_MODULE} == {}


def test_packages_hold_a_docstring_and_nothing_else() -> None:
    bodies = {
        name_of(path): ast.parse(text_of(path)).body
        for path in SOURCES
        if path.name == "__init__.py" and path.parent != ROOT / "pinata"
    }
    odd = [
        name for name, body in bodies.items() if len(body) != 1 or not isinstance(body[0], ast.Expr)
    ]
    assert odd == []


def test_only_the_program_and_its_faces_read_the_environment() -> None:
    entry, faces = ROOT / "pinata" / "__main__.py", ROOT / "pinata" / "faces"
    inside = [path for path in SOURCES if path != entry and faces not in path.parents]
    assert places_of_attribute("os", {"environ", "environb", "getenv"}, inside) == []


def test_case_numbers_stand_in_the_list_of_cases_alone() -> None:
    elsewhere = [path for path in FILES if name_of(path) != "tests/cases.toml"]
    assert lines_where(CASE_ID.search, elsewhere) == []


def test_every_test_module_is_for_a_module_of_the_same_place() -> None:
    mirrored = [
        path.relative_to(ROOT / "tests")
        for path in TESTS
        if path.name.startswith("test_") and path.relative_to(ROOT).parts[1] in PARTS
    ]
    assert [str(path) for path in mirrored if not _has_subject(path)] == []


def _has_subject(test: Path) -> bool:
    """Whether `test_lease_races.py` has a `lease.py`, `lease/` or `lease_races.py` to be about.

    Tests of what a crash or a cancel leaves behind are about a whole package.
    """
    if test.stem in {"test_cancel", "test_crash"}:
        return True
    words = test.stem.removeprefix("test_").split("_")
    folder = ROOT / test.parent
    heads = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    return any((folder / f"{head}.py").is_file() or (folder / head).is_dir() for head in heads)


def test_every_link_in_a_document_leads_somewhere() -> None:
    broken = [
        f"{name_of(document)}: {target}"
        for document in DOCUMENTS
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(document))
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


def test_every_make_target_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = {
        target
        for document in DOCUMENTS
        for target in re.findall(r"`make ([a-z]+)", text_of(document))
    }
    assert named - targets == set()
    assert {"demo", "test", "lint", "package", "soak", "bench", "pins"} <= targets


def test_every_test_that_a_document_names_exists() -> None:
    missing = [
        f"{name_of(document)}: {test}"
        for document in DOCUMENTS
        for test in TEST_ID.findall(text_of(document))
        if not _names_a_test(test)
    ]
    assert missing == []


def _names_a_test(test: str) -> bool:
    file, _, function = test.partition("::")
    path = ROOT / file
    return path.is_file() and (not function or f"def {function}(" in text_of(path))


def test_constraints_pin_every_dependency_and_name_no_place() -> None:
    lines = text_of(ROOT / "constraints.txt").splitlines()
    assert [line for line in lines if not PINNED.fullmatch(line)] == []
    pinned = {_normal(line.partition("==")[0]) for line in lines}
    assert _dependencies() | _development_dependencies() <= pinned


def test_dependencies_are_exactly_what_the_parts_import() -> None:
    imported = {name.partition(".")[0] for path in SOURCES for name in _imports(path)}
    foreign = imported - set(sys.stdlib_module_names) - PARTS
    providers = packages_distributions()
    used = {_normal(providers[name][0]) for name in foreign}
    # One package brings the part that is imported and the program that this part starts.
    used = {name.replace("pydantic-monty-client", "pydantic-monty") for name in used}
    assert used - {"pydantic-core"} == _dependencies()  # pydantic brings its core along


def test_tests_import_only_what_is_installed_for_them() -> None:
    imported = {name.partition(".")[0] for path in TESTS for name in _imports(path)}
    foreign = imported - set(sys.stdlib_module_names) - PARTS - {"tests", "benchmarks"}
    providers = packages_distributions()
    used = {_normal(providers[name][0]) for name in foreign}
    assert used - _dependencies() - _development_dependencies() == set()


def _imports(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def test_architecture_says_what_every_dependency_replaces() -> None:
    text = text_of(ROOT / "ARCHITECTURE.md").lower()
    assert [name for name in sorted(_dependencies()) if f"| `{name}` |" not in text] == []


def _dependencies() -> set[str]:
    return {_normal(entry) for entry in _project()["project"]["dependencies"]}


def _development_dependencies() -> set[str]:
    groups = _project()["dependency-groups"].values()
    return {_normal(entry) for group in groups for entry in group if isinstance(entry, str)}


def _project() -> dict[str, Any]:
    return tomllib.loads(text_of(ROOT / "pyproject.toml"))


def _normal(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def test_changelog_has_what_is_not_released_on_top() -> None:
    headings = re.findall(r"^(##+) (.+)$", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == ("##", "Unreleased")
    kinds = {"Security", "Removed", "Deprecated", "Added", "Changed", "Fixed"}
    assert {text for level, text in headings if level == "###"} <= kinds


def test_continuous_integration_runs_the_commands_that_people_run() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    calls = re.findall(r"^make (.*)$", text_of(script), re.MULTILINE)
    assert calls == ['test BESIDE="lint package"']


def test_what_continuous_integration_names_beside_the_tests_is_run() -> None:
    def commands(*words: str) -> list[str]:
        told = subprocess.run(
            ["make", "--dry-run", "--no-print-directory", *words],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
        return told.stdout.splitlines()

    whole, alone = ({*commands("test", f"BESIDE={more}")} for more in ("lint package", ""))
    for target in ("lint", "package"):
        wanted = {*commands(target)}
        assert wanted <= whole
        assert not wanted <= alone
