"""The table of a run as rich draws it, from the values of `pinata.faces.board`. Pure."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from engine.core.ids import TaskId
from engine.core.outcome import Status
from pinata.faces.board import Board, Row

_MARKS = {
    Status.QUEUED: ("·", "dim"),
    Status.RUNNING: ("▸", "cyan"),
    Status.SUCCEEDED: ("✓", "green"),
    Status.CANCELLED: ("✗", "yellow"),
    Status.BLOCKED: ("✗", "yellow"),
}
_WRONG = ("✗", "red")
_HEADINGS = ("time", "turns", "calls", "tokens", "cost")
_NARROW_HEADINGS = ("time", "trn", "cll", "tok", "cost")
_TASK_WIDTH = 20
_NARROW_TASK_WIDTH = 12
_NARROW = 80


def frame(shown: Board, width: int, cursor: TaskId | None = None) -> Group:
    """Return title, table and total.

    Args:
        shown: what to draw.
        width: of the terminal, in columns.
        cursor: the task whose row stands out, if any.
    """
    narrow = width < _NARROW
    table = Table.grid(padding=(0, 1), expand=True)
    table.show_header = True
    table.add_column(width=1)
    task_width = _NARROW_TASK_WIDTH if narrow else _TASK_WIDTH
    table.add_column(max_width=task_width, no_wrap=True, overflow="ellipsis")
    for heading in _NARROW_HEADINGS if narrow else _HEADINGS:
        table.add_column(Text(heading, style="dim"), justify="right", no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for row in shown.rows:
        table.add_row(*_cells(row), style="reverse" if row.task == cursor else None)
    parts: list[RenderableType] = [line(shown.title), table]
    if shown.hidden is not None:
        parts.append(line(shown.hidden, "dim"))
    parts.append(line(shown.total))
    return Group(*parts)


def line(text: str, style: str = "") -> Text:
    """Return a text that takes one line, cut at the edge of the terminal."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _cells(row: Row) -> list[Text]:
    mark, style = _MARKS.get(row.status, _WRONG)
    numbers = (row.time, row.turns, row.calls, row.tokens, row.cost)
    return [
        Text(mark, style=style),
        Text(row.task),
        *(Text(number) for number in numbers),
        Text(row.activity, style="dim"),
    ]
