"""What a Pi session shows of its runs and agents at work: a line in its footer, a row per agent."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from engine.core.ids import RunId
from engine.core.outcome import Status
from engine.core.view import RunView
from engine.records.host import status, widget
from engine.system.bell import Bell
from engine.system.clock import Clock
from pinata.faces.board import Row, row
from pinata.faces.herd_board import Agent, herd_lines, herd_status
from pinata.faces.text import SHORT_ID_CHARS, short, visible
from pinata.faces.watched import Watched
from pinata.work.host_seat import Send
from pinata.work.observer import Observer

# At most twice a second, which is also often enough for clocks that show seconds.
PAUSE_S: Final = 0.5
# Pi shows ten lines of a widget: the headings, the rows, and how many more there are.
MOST_ROWS: Final = 8
_MARKS = {Status.QUEUED: "·", Status.RUNNING: "▸", Status.SUCCEEDED: "✓"}
_WRONG = "✗"
_NAME_CHARS = 24
_ACTIVITY_CHARS = 80
_BACKEND = 3
_NUMBERS = ("time", "turns", "calls", "tokens", "cost")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a client shows; None where it shows nothing."""

    status: str | None = None
    lines: tuple[str, ...] | None = None


class SessionBoard:
    """Watches all runs of a host, and keeps what its client shows up to date."""

    def __init__(self, clock: Clock) -> None:
        """Begin without a run.

        Args:
            clock: for the time that agents have worked so far.
        """
        self._clock = clock
        self._runs: list[_OneOfSeveral] = []
        self._herd: Sequence[Agent] = ()
        self._news = Bell()

    def begin(self) -> Observer:
        """See `pinata.work.observer.Onlooker`."""
        watched = _OneOfSeveral(self._wake)
        self._runs.append(watched)
        return watched

    def end(self, observer: Observer) -> None:
        """See `pinata.work.observer.Onlooker`."""
        self._runs = [one for one in self._runs if one is not observer]
        self._wake()

    def find(self, run: RunId) -> RunView | None:
        """Return how a run stands, its agents' activity included, while it works here."""
        return next((one.view for one in self._at_work if one.id == run), None)

    def show_herd(self, agents: Sequence[Agent]) -> None:
        """Show managed agents, as `agent_list` tells of them, until the next call."""
        self._herd = tuple(agents)
        self._wake()

    @property
    def _at_work(self) -> list["_OneOfSeveral"]:
        return [one for one in self._runs if one.run is not None]

    def _wake(self) -> None:
        self._news.ring()

    async def show(self, send: Send) -> None:
        """Send `status` and `widget` frames when something has changed; never returns.

        While nothing works it waits without a timer.
        """
        shown = Shown()
        while True:
            news, is_idle = self._news.next, not self._at_work
            shown = await _change(shown, self.shown(), send)
            if not is_idle:
                await trio.sleep(PAUSE_S)
                continue
            await news.wait()

    def shown(self) -> Shown:
        """Return what is to be shown now."""
        runs = self._at_work
        told = [herd_status(self._herd), _status(runs) if runs else None]
        lines = (*herd_lines(self._herd), *(_lines(runs, self._clock.now_ms()) or ()))
        return Shown(" · ".join(filter(None, told)) or None, lines or None)


class _OneOfSeveral(Watched):
    """One run of several, whose news are everybody's."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__()
        self._wake_all = wake

    @property
    def id(self) -> RunId | None:
        return None if self.run is None else self.run.id

    def wake(self) -> None:
        self._wake_all()


async def _change(was: Shown, now: Shown, send: Send) -> Shown:
    if now.status != was.status:
        await send(status(now.status))
    if now.lines != was.lines:
        await send(widget(now.lines))
    return now


def _status(runs: Sequence[Watched]) -> str:
    """Return in a few words how much is at work."""
    plans = [one.run.after for one in runs if one.run is not None]
    tasks = [task for one in runs for task in one.view.tasks.values()]
    working = sum(task.status is Status.RUNNING for task in tasks)
    settled = sum(task.status.is_final for task in tasks)
    return (
        f"pinata: {_counted(working, 'agent')} at work in {_counted(len(runs), 'run')}, "
        f"{settled} of {_counted(sum(map(len, plans)), 'task')} settled"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _lines(runs: Sequence[Watched], now_ms: int) -> tuple[str, ...] | None:
    """Return headings and a line for each agent at work; None where there is none."""
    several = len(runs) > 1
    found = [each for one in runs for each in _agents(one, now_ms, several=several)]
    if not found:
        return None
    lines = table(found[:MOST_ROWS])
    if len(found) > MOST_ROWS:
        lines.append(f"  and {_counted(len(found) - MOST_ROWS, 'agent')} more")
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class AgentRow:
    """A row, and who works there."""

    row: Row
    task: str
    agent: str
    backend: str


def _agents(watched: Watched, now_ms: int, *, several: bool) -> Iterator[AgentRow]:
    run = watched.run
    assert run is not None
    prefix = f"{short(run.id)}/" if several else ""
    for task, after in run.after.items():
        seen = watched.view.tasks.get(task)
        if seen is not None and seen.status is Status.RUNNING:
            yield AgentRow(
                row(watched.view, task, after, now_ms),
                f"{prefix}{task}",
                run.agents[task],
                run.backends.get(task, ""),
            )


def table(rows: Sequence[AgentRow]) -> list[str]:
    """Return lines of equal columns, headings first: plain text without control characters."""
    cells = [("", "task", "agent", "backend", *_NUMBERS, ""), *map(_cells, rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    if not any(each.backend for each in rows):
        widths[_BACKEND] = 0
    return [_line(line, widths) for line in cells]


def _cells(each: AgentRow) -> tuple[str, ...]:
    shown = each.row
    return (
        _MARKS.get(shown.status, _WRONG),
        each.task[: _NAME_CHARS + SHORT_ID_CHARS + 1],
        visible(each.agent)[:_NAME_CHARS],
        each.backend,
        *(shown.time, shown.turns, shown.calls, shown.tokens, shown.cost),
        shown.activity[:_ACTIVITY_CHARS],
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    names, numbers, activity = cells[:4], cells[4:9], cells[9]
    parts = [name.ljust(width) for name, width in zip(names, widths[:4], strict=True) if width]
    parts += [each.rjust(width) for each, width in zip(numbers, widths[4:9], strict=True)]
    return " ".join([*parts, activity]).rstrip()
