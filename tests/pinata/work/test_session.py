"""Sessions: where they lie, what is remembered of their runs, and how early."""

import hashlib
import json
import stat
from pathlib import Path

import pytest

from engine.core.errors import ConflictError, CorruptionError, ExternalError, UsageError
from engine.core.ids import RunId
from engine.system import faults
from pinata.work.session import Session, forget_run, prepare_session, remember_run

RUN = RunId("0123456789abcdef")


def session(folder: Path, key: str = "a session") -> Session:
    return Session.of(key, {"XDG_STATE_HOME": str(folder)})


def modes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): stat.filemode(path.lstat().st_mode)
        for path in folder.rglob("*")
    }


def test_session_has_a_folder_by_the_digest_of_its_key_and_its_lock_outside(
    tmp_path: Path,
) -> None:
    found = session(tmp_path)
    assert found.folder.name == hashlib.sha256(b"a session").hexdigest()[:32]
    assert found.folder == tmp_path / "pinata" / "sessions" / found.folder.name
    assert found.lock == tmp_path / "pinata" / "locks" / f"session.{found.folder.name}.lock"
    assert session(tmp_path, "another").folder != found.folder
    assert (found.host_file.name, found.log_file.name) == ("host.json", "host.log")


@pytest.mark.parametrize("key", ["", "x" * 201, "two\nlines", "half \ud800 a pair"])
def test_key_that_is_no_printable_text_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError, match="a session's key is 1 to 200 printable characters"):
        session(tmp_path, key)


async def test_run_is_remembered_with_its_repository_for_this_user_alone(tmp_path: Path) -> None:
    found = session(tmp_path)
    await remember_run(found, RUN, Path("/repo/.git"), Path("/repo"))
    assert json.loads(found.run_file(RUN).read_text()) == {
        "kind": "session-run",
        "v": 1,
        "run": RUN,
        "common_dir": "/repo/.git",
        "root": "/repo",
    }
    assert json.loads(found.session_file.read_text())["key"] == "a session"
    name = f"pinata/sessions/{found.folder.name}"
    assert modes(tmp_path) == {
        "pinata": "drwx------",
        "pinata/locks": "drwx------",
        "pinata/sessions": "drwx------",
        name: "drwx------",
        f"{name}/runs": "drwx------",
        f"{name}/runs/{RUN}.json": "-rw-------",
        f"{name}/session.json": "-rw-------",
    }
    await forget_run(found, RUN)
    await forget_run(found, RUN)
    assert list(found.runs.iterdir()) == []


async def test_session_is_prepared_once_and_stays(tmp_path: Path) -> None:
    found = session(tmp_path)
    await prepare_session(found)
    before = found.session_file.stat()
    await prepare_session(found)
    assert found.session_file.stat() == before


async def test_folder_of_another_session_is_not_taken_for_ours(tmp_path: Path) -> None:
    found = session(tmp_path)
    await prepare_session(found)
    found.session_file.write_text('{"kind": "session", "v": 1, "key": "somebody else"}')
    with pytest.raises(
        CorruptionError, match="is the record of another session, somebody else; remove it"
    ):
        await prepare_session(found)
    found.session_file.write_text("{")
    with pytest.raises(CorruptionError, match=r"session\.json is damaged"):
        await remember_run(found, RUN, Path("/repo/.git"), Path("/repo"))


async def test_what_stands_where_a_session_belongs_is_named(tmp_path: Path) -> None:
    found = session(tmp_path)
    found.folder.parent.mkdir(parents=True)
    found.folder.touch()
    with pytest.raises(ConflictError, match=r"is not a folder of its own"):
        await prepare_session(found)


async def test_full_disk_is_told(tmp_path: Path) -> None:
    found = session(tmp_path)
    faults.install("error:session.run.started:1:ENOSPC")
    try:
        with pytest.raises(ExternalError, match="cannot save that the session has a run: No space"):
            await remember_run(found, RUN, Path("/repo/.git"), Path("/repo"))
    finally:
        faults.install("")
