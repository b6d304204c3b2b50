"""A session with runs that are nothing but their files: no repository, no agents."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.events import Event, RunResumed, RunSettled, RunStarted
from engine.core.ids import RunId
from engine.core.outcome import Status
from engine.core.setup import Setup, SetupSource
from engine.records.event import encode_event
from engine.records.run import RunRecordV1, encode_run
from engine.records.session import SessionRunV1, encode_record
from engine.records.spec import encode_spec
from engine.store import RunFolder
from pinata.work.session import Session
from tests.support.jobs import accepted, job, scout


@dataclass(slots=True)
class PaperRun:
    """A run that was never carried out; its log says what a test wants.

    Attributes:
        settled: what it settled as, each time.
        torn: what a crash left of the next line.
    """

    session: Session
    folder: RunFolder
    settled: list[Status] = field(default_factory=list)
    seq: int = 0
    is_over: bool = False
    torn: bytes = b""

    @property
    def run(self) -> RunId:
        return self.folder.run

    @property
    def common(self) -> Path:
        return self.folder.path.parents[1]

    def enter(self) -> None:
        """Write the session's entry."""
        self.session.runs.mkdir(parents=True, exist_ok=True)
        record = SessionRunV1(
            run=self.run, common_dir=str(self.common), root=str(self.common.parent)
        )
        self.session.run_file(self.run).write_bytes(encode_record(record))

    def create(self, key: str | None = None) -> None:
        """Write the record and the first event."""
        self.folder.path.mkdir(parents=True)
        record = RunRecordV1(
            run=self.run,
            root=str(self.common.parent),
            started_in=str(self.common.parent),
            started_at_ms=1,
            deadline_at_ms=2,
            head=None,
            base_commit=None,
            base_tree=None,
            uncommitted=[],
            fold_case=False,
            definitions={},
            setup=Setup(SetupSource.NOT_NEEDED),
            session=key or self.session.key,
            mark="d" * 32,
            notices=[],
            spec=encode_spec(accepted(job(scout()))),
        )
        self.folder.run_file.write_bytes(encode_run(record))
        self.append(RunStarted(1))

    def append(self, event: Event, at_ms: int | None = None) -> None:
        """Write an event as a live owner does, who cuts off what a crash left."""
        path = self.folder.events_file
        whole = path.read_bytes().removesuffix(self.torn) if self.torn else None
        if whole is not None:
            path.write_bytes(whole)
            self.torn = b""
        line = encode_event(event, seq=self.seq, run=self.run, at_ms=at_ms or self.seq)
        with path.open("ab") as log:
            log.write(line)
        self.seq += 1

    def settle(self, status: Status = Status.SUCCEEDED, at_ms: int | None = None) -> None:
        """Let it settle, after it went on if it has settled before."""
        if self.is_over:
            self.go_on()
        reason = None if status is Status.SUCCEEDED else f"it {status.value}"
        self.append(RunSettled(status, reason), at_ms)
        self.settled.append(status)
        self.is_over = True

    def go_on(self) -> None:
        """Let a settled run be opened again."""
        self.append(RunResumed("a test says so"))
        self.is_over = False

    def tear(self) -> None:
        """Let its owner die while it writes."""
        if not self.torn:
            self.torn = b'{"v":1,"seq":'
            with self.folder.events_file.open("ab") as log:
                log.write(self.torn)

    def confirmed(self) -> dict[str, int | None]:
        """What lies in the folder of deliveries, and what each says of the log."""
        folder = self.folder.deliveries
        if not folder.is_dir():
            return {}
        return {path.name: json.loads(path.read_text())["log_bytes"] for path in folder.iterdir()}


def paper_run(tmp_path: Path, session: Session, number: int = 1) -> PaperRun:
    """Return a run of the session that is not there yet; each lies in a repository of its own."""
    folder = tmp_path / f"repo{number}" / ".git" / "pinata" / f"{number:016x}"
    return PaperRun(session, RunFolder(folder))
