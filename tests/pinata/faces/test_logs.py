"""Each event of a log is printed once, and only what is new is read."""

from argparse import Namespace
from pathlib import Path

import pytest
import trio
import trio.testing

from engine.core.errors import ConflictError, CorruptionError, PinataError
from engine.core.events import CancelRequested, RunResumed
from engine.core.ids import RunId
from engine.store import RunFolder
from engine.system import files
from pinata.faces.logs import LogPrinter
from pinata.faces.view_lines import Lines
from pinata.faces.view_state import Ending
from pinata.work.session import Session
from pinata.work.unknown_task import UnknownTaskError
from tests.support.ledgers import PaperRun
from tests.support.views import ToldSource, opened

AS_LINES = Namespace(task=None, json=False)


@pytest.fixture
def run(tmp_path: Path) -> PaperRun:
    session = Session.of("a session", {"XDG_STATE_HOME": str(tmp_path)})
    made = PaperRun(session, RunFolder(tmp_path / "pinata" / RunId("a" * 16)))
    made.create()
    return made


class Shown:
    """What was printed; nobody reads any more once `is_closed`."""

    def __init__(self) -> None:
        self.text = ""
        self.is_closed = False

    def __call__(self, text: str) -> bool:
        self.text += text
        return not self.is_closed

    @property
    def lines(self) -> list[str]:
        return [line[10:] for line in self.text.splitlines()]


def test_each_event_is_printed_once_as_it_comes(run: PaperRun) -> None:
    shown = Shown()
    printer = LogPrinter(run.folder, AS_LINES, shown)
    assert printer.print_new()
    assert printer.print_new()
    run.append(CancelRequested("enough"))
    run.tear()
    settled = [printer.print_new() and printer.has_settled]
    run.settle()
    settled.append(printer.print_new() and printer.has_settled)
    run.go_on()
    settled.append(printer.print_new() and printer.has_settled)
    assert settled == [False, True, False]
    assert shown.lines[:3] == [
        "run started, 1 task",
        "run: cancel requested: enough",
        "run succeeded",
    ]


def test_only_what_is_new_is_read(run: PaperRun, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(200):
        run.append(RunResumed("once more"))
    printer = LogPrinter(run.folder, AS_LINES, Shown())
    printer.print_new()
    read, lengths = files.read_regular, []

    def counting(path: Path, limit: int, *, start: int = 0) -> bytes:
        data = read(path, limit, start=start)
        lengths.append(len(data))
        return data

    monkeypatch.setattr(files, "read_regular", counting)
    run.append(RunResumed("once more"))
    printer.print_new()
    assert sum(lengths) < run.folder.events_file.stat().st_size / 2


def test_log_that_was_written_anew_is_not_printed_twice(run: PaperRun) -> None:
    shown = Shown()
    printer = LogPrinter(run.folder, AS_LINES, shown)
    printer.print_new()
    whole = run.folder.events_file.read_bytes()
    run.folder.events_file.unlink()
    run.folder.events_file.write_bytes(whole)
    run.append(CancelRequested("enough"))
    assert printer.print_new()
    assert shown.lines == ["run started, 1 task", "run: cancel requested: enough"]


def test_reader_who_is_gone_is_noticed_and_unknown_tasks_are_refused(run: PaperRun) -> None:
    shown = Shown()
    shown.is_closed = True
    assert not LogPrinter(run.folder, AS_LINES, shown).print_new()
    with pytest.raises(UnknownTaskError):
        LogPrinter(run.folder, Namespace(task="nobody", json=False), shown)
    run.folder.events_file.write_text("no event\n")
    with pytest.raises(CorruptionError):
        LogPrinter(run.folder, AS_LINES, shown).print_new()


async def lines_of(
    run: PaperRun,
    shown: Shown,
    source: ToldSource,
    signals: trio.MemoryReceiveChannel[int],
) -> Ending:
    with trio.fail_after(20):
        return await Lines(LogPrinter(run.folder, AS_LINES, shown), signals).show(source)


@pytest.mark.parametrize(
    ("loss", "ending"),
    [(None, Ending.ENDED), (ConflictError("it is gone"), Ending.LOST)],
    ids=["ended", "lost"],
)
async def test_lines_are_printed_when_the_owner_tells_of_news_until_it_is_over(
    run: PaperRun, loss: PinataError | None, ending: Ending
) -> None:
    shown, source = Shown(), ToldSource(opened())
    _, signals = trio.open_memory_channel[int](0)
    results = []
    async with trio.open_nursery() as nursery:

        async def show() -> None:
            results.append(await lines_of(run, shown, source, signals))

        nursery.start_soon(show)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert shown.lines == ["run started, 1 task"]
        run.append(CancelRequested("enough"))
        source.happen(CancelRequested("enough"))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert shown.lines[1:] == ["run: cancel requested: enough"]
        run.settle()
        source.end(loss)
    assert results == [ending]
    assert shown.lines[2:] == ["run succeeded"]


async def test_signal_and_a_reader_who_is_gone_end_the_lines(run: PaperRun) -> None:
    sender, signals = trio.open_memory_channel[int](1)
    await sender.send(2)
    source = ToldSource(opened())
    assert await lines_of(run, Shown(), source, signals) is Ending.LEFT
    shown = Shown()
    shown.is_closed = True
    assert await lines_of(run, shown, ToldSource(opened()), signals) is Ending.LEFT
