"""A writer that changed what it does not own is told what, and the remedy where there is one."""

import pytest

from engine.core.changes import ABSENT_MODE, FILE_MODE, Change, ChangeStatus
from engine.core.ids import BlobId, TaskId
from engine.core.spec import Kind, TaskSpec
from pinata.work.rechecking import trespass

FIX = TaskSpec(TaskId("fix"), "builder", Kind.WRITER, "Fix it.", ownership=("src",))
REMEDY = ", caches of Python; have Git ignore them, or run python with -B"


def added(path: str) -> Change:
    blobs = BlobId("0" * 40), BlobId("1" * 40)
    return Change(path.encode(), ChangeStatus.ADDED, ABSENT_MODE, FILE_MODE, *blobs)


def fault(*paths: str) -> str | None:
    return trespass(FIX, [added(path) for path in paths], fold_case=False)


@pytest.mark.parametrize("path", ["test/__pycache__/a.cpython-311.pyc", "a.pyc", "__pycache__/a"])
def test_caches_of_python_come_with_what_to_do_about_them(path: str) -> None:
    assert fault("src/a.py", path) == f"it changed what it does not own{REMEDY}: {path}"


@pytest.mark.parametrize("path", ["b.txt", "my__pycache__/a", "a.pyc/b"])
def test_a_file_that_no_interpreter_wrote_has_no_such_remedy(path: str) -> None:
    assert fault("a.pyc", path) == f"it changed what it does not own: a.pyc and {path}"


def test_what_a_writer_owns_is_no_trespass_even_as_a_cache() -> None:
    assert fault("src/__pycache__/a.pyc") is None
