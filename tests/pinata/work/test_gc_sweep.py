"""What belongs to no run goes only where it is known to be the engine's own and nobody's now."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.ids import RunId
from engine.records.session import SessionRunV1, encode_record
from engine.store import RunFolder
from engine.system.files import make_private_dir
from engine.system.locks import claim
from pinata.work.places import Places
from tests.support.garbage import collect, folder_of, has_nothing_to_do, refs_of
from tests.support.projects import Project

RUN = "0123456789abcdef"
LONG_AGO_S = 1_000_000_000


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
async def places(project: Project) -> Places:
    found = Places.of(await project.repo.discovered(), project.env)
    await trio.to_thread.run_sync(make_private_dir, found.locks)
    return found


def age(folder: Path) -> None:
    """Have everything in a folder, and it itself, be as it was long ago."""
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            os.utime(Path(parent, name), (LONG_AGO_S, LONG_AGO_S), follow_symlinks=False)
    os.utime(folder, (LONG_AGO_S, LONG_AGO_S))


@pytest.fixture
async def begun(project: Project, places: Places) -> RunFolder:
    """What a creation leaves that was killed long ago, right before the run had a record."""
    folder = folder_of(project, RUN)
    for inner in (folder.results, folder.transcripts, folder.scratch / "index-1"):
        inner.mkdir(parents=True)
    (folder.path / ".run.json.0123456789ab.tmp").write_text("{")
    (folder.scratch / "index-1" / "index").write_text("")
    for name in ("base", "checkout", "pr/7/head", "pr/7/base"):
        project.repo.git("update-ref", f"refs/pinata/{RUN}/{name}", "HEAD")
    age(folder.path)
    return folder


def only_reason(answer: dict[str, Any]) -> str:
    assert has_nothing_to_do(answer), answer
    (kept,) = answer["kept"]
    reason: str = kept["reason"]
    return reason


async def test_creation_that_nobody_will_finish_goes_with_its_refs(
    project: Project, begun: RunFolder
) -> None:
    preview = await collect(project, confirm=False)
    assert preview["removable"] == [{"what": "run", "name": RUN, "run": RUN}]
    assert begun.path.is_dir()
    answer = await collect(project)
    assert answer["removed"] == preview["removable"]
    assert not begun.path.exists()
    assert refs_of(project, RUN) == []
    assert has_nothing_to_do(await collect(project))


async def test_creation_that_may_be_going_on_is_left_alone(
    project: Project, begun: RunFolder, places: Places
) -> None:
    async with claim(places.run_lock(RunId(RUN)), what="the run", holder="somebody"):
        assert only_reason(await collect(project)) == "it is being made by somebody"
    (begun.scratch / "new").write_text("")
    assert only_reason(await collect(project)).startswith("it was begun less than an hour ago")
    assert begun.path.is_dir()


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("events.jsonl", "events.jsonl"),
        ("results/fix.json", "results"),
        ("transcripts/fix.1.jsonl", "transcripts"),
        ("refs/tasks/fix/1", f"refs/pinata/{RUN}/tasks/fix/1"),
    ],
)
async def test_run_whose_record_is_lost_is_no_unfinished_creation(
    made: str, named: str, project: Project, begun: RunFolder
) -> None:
    if made.startswith("refs/"):
        project.repo.git("update-ref", named, "HEAD")
    else:
        (begun.path / made).write_text("{}")
    age(begun.path)
    assert only_reason(await collect(project)) == (
        f"run.json is missing beside {named}, which only a run can have: put it back, or remove "
        "the folder"
    )
    assert "base" in refs_of(project, RUN)


async def test_refs_of_a_run_that_is_not_here_are_somebodys(project: Project) -> None:
    project.repo.git("update-ref", f"refs/pinata/{RUN}/evidence", "HEAD")
    assert has_nothing_to_do(await collect(project))
    assert refs_of(project, RUN) == ["evidence"]


async def test_bench_of_a_killed_verification_goes_when_nobody_is_at_work_there(
    project: Project, places: Places
) -> None:
    places.verification.mkdir()
    (places.verification / "mark").write_text("0" * 32)
    async with claim(places.verification_lock, what="a verification", holder="somebody"):
        assert only_reason(await collect(project)) == "somebody verifies a commit there"
    item = {"what": "file", "name": str(places.verification)}
    assert (await collect(project, confirm=False))["removable"] == [item]
    assert places.verification.is_dir()
    assert (await collect(project))["removed"] == [item]
    assert not places.verification.exists()
    assert has_nothing_to_do(await collect(project))


@pytest.fixture
def session(project: Project, places: Places) -> Path:
    """A session's folder, with nothing in it."""
    folder = places.state / "sessions" / ("0" * 32)
    (folder / "runs").mkdir(parents=True)
    places.state.joinpath("locks").mkdir()
    return folder


def remember(session: Path, run: str, common_dir: Path, *, old: bool = True) -> Path:
    entry = session / "runs" / f"{run}.json"
    record = SessionRunV1(run=run, common_dir=str(common_dir), root="/somewhere")
    entry.write_bytes(encode_record(record))
    if old:
        os.utime(entry, (LONG_AGO_S, LONG_AGO_S))
    return entry


async def test_session_forgets_runs_that_never_came_to_be(
    project: Project, session: Path, begun: RunFolder, places: Places
) -> None:
    stale = [remember(session, run, places.common) for run in (RUN, "1" * 16)]
    held, young, elsewhere = "2" * 16, "3" * 16, "4" * 16
    stays = {
        remember(session, held, places.common),
        remember(session, young, places.common, old=False),
        remember(session, elsewhere, project.folder),
        session / "runs" / "notes.txt",
        session / "runs" / f"{'5' * 16}.json",
    }
    (session / "runs" / "notes.txt").write_text("")
    (session / "runs" / f"{'5' * 16}.json").write_text("{")
    (session.parent / ("1" * 32)).symlink_to(session)
    async with claim(places.run_lock(RunId(held)), what="the run", holder="somebody"):
        preview = await collect(project, confirm=False)
        answer = await collect(project)
    assert answer["removed"] == preview["removable"]
    assert [item["name"] for item in answer["removed"]] == [RUN, *map(str, stale)]
    assert set((session / "runs").iterdir()) == stays
    (kept,) = answer["kept"]
    assert "is damaged" in kept["reason"]


@pytest.fixture
def short() -> Iterator[Path]:
    """A temporary folder whose path a socket can have."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_host_that_lost_its_lock_and_listens_keeps_its_address(
    *, is_elsewhere: bool, project: Project, session: Path, short: Path
) -> None:
    place = short / "pinata-abc"
    place.mkdir()
    project.repo.env["XDG_RUNTIME_DIR"] = str(short)
    host = session / "host.json"
    host.write_text(f'{{"socket": "{place}/host.sock"}}' if is_elsewhere else "{}")
    with socket.socket(socket.AF_UNIX) as living, chdir(place if is_elsewhere else session):
        living.bind("host.sock")
        living.listen()
        assert has_nothing_to_do(await collect(project))
        assert host.exists()


async def test_host_that_is_dead_leaves_no_address(
    project: Project, session: Path, places: Places, short: Path
) -> None:
    project.repo.env["XDG_RUNTIME_DIR"] = str(short)
    private = short / "pinata-abc"
    private.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(private / "host.sock"))
    host = session / "host.json"
    host.write_text(f'{{"socket": "{private}/host.sock"}}')
    lock = places.state / "locks" / f"session.{session.name}.lock"
    async with claim(lock, what="the session", holder="a host"):
        assert has_nothing_to_do(await collect(project))
    (session / "host.sock").write_text("")
    items = [{"what": "session", "name": str(session / f"host.{end}")} for end in ("json", "sock")]
    assert (await collect(project, confirm=False))["removable"] == items
    assert host.exists()
    assert (await collect(project))["removed"] == items
    assert [path for path in (host, session / "host.sock", private) if path.exists()] == []
    assert has_nothing_to_do(await collect(project))
