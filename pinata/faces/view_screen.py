"""What a view of a run draws: values in, renderables out. Pure.

Everything that a model, a file or the engine's error says is escaped on its way in here.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from agents.transcript import SaidMessage, excerpt
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.core.quote import escape
from engine.core.view import RunView, TaskView
from pinata.faces.board import Board, Cursor, board, duration
from pinata.faces.frame import frame, line
from pinata.faces.text import short, visible
from pinata.faces.view_state import Draft, Sight, ViewState
from pinata.work.observer import OpenedRun

# The table's title, headings, what is hidden and the total; a conversation has a title.
_TABLE_LINES = 4
_TITLE_LINES = 1
# What is said or typed, and which keys there are.
BOTTOM_LINES = 2
_SHOWN_CHARS = 40_000
_NARROWEST = 10
_WORDS = re.compile(r"\s*\S+|\s+")

_TABLE_KEYS = "↑↓ task  ⏎ read  s/S steer  c/C cancel task/run  q leave"
_TALK_KEYS = "↑↓ scroll  s/S steer  c/C cancel task/run  q back"
_TYPING_KEYS = "⏎ send  tab now or at its end  esc drop"
_ASKING_KEYS = "y cancel it  n go on"


@dataclass(frozen=True, slots=True)
class Size:
    """Of the terminal."""

    columns: int
    lines: int


@dataclass(frozen=True, slots=True)
class Talk:
    """What is known of a task's conversation.

    Attributes:
        said: its messages, None until they have been read.
        writing: what the model has written of the next one.
        trouble: why they could not be read.
    """

    said: Sequence[SaidMessage] | None = None
    writing: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to show at one moment.

    Attributes:
        now_ms: epoch milliseconds; stands still once nothing runs.
        notice: what is to be known about the whole view, said while nothing else is.
        talk: of the task under the cursor.
    """

    run: OpenedRun
    view: RunView
    now_ms: int
    notice: str = ""
    talk: Talk = Talk()


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn: a body of any length, which is cut, and two lines below it.

    Attributes:
        sight: what the next key is about.
    """

    body: RenderableType
    bottom: tuple[Text, Text]
    sight: Sight


def picture(scene: Scene, state: ViewState, size: Size) -> Picture:
    """Return what to draw on a terminal of `size`."""
    if state.is_reading:
        body, page, most_back = _talk(scene, state, size)
    else:
        page, most_back = max(1, size.lines - BOTTOM_LINES - _TABLE_LINES), 0
        cursor = Cursor(state.task, state.has_moved)
        body = frame(_board(scene, page, cursor), size.columns, state.task)
    tasks = scene.view.tasks
    running = {task for task in tasks if tasks[task].status is Status.RUNNING}
    sight = Sight(tuple(scene.run.after), running, page, most_back)
    return Picture(body, _bottom(scene, state, size), sight)


def last_picture(scene: Scene, size: Size) -> RenderableType:
    """Return what stays on the terminal when the view has ended."""
    # One line is left for the shell.
    return frame(_board(scene, max(1, size.lines - _TABLE_LINES - 1), None), size.columns)


def first_state(run: OpenedRun, task: TaskId | None) -> ViewState:
    """Return what is shown first: the conversation of `task`, or a table.

    The cursor is then on a task that works, or on one that did not succeed, or on the first.
    """
    if task is not None:
        return ViewState(task, is_reading=True)
    found = {name: run.view.tasks.get(name, TaskView(name)).status for name in run.after}
    wrong = [name for name, status in found.items() if _went_wrong(status)]
    working = [name for name, status in found.items() if status is Status.RUNNING]
    return ViewState([*working, *wrong, *found][0])


def _went_wrong(status: Status) -> bool:
    return status.is_final and status is not Status.SUCCEEDED


def _board(scene: Scene, most_rows: int, cursor: Cursor | None) -> Board:
    run = scene.run
    return board(short(run.id), scene.view, run.after, scene.now_ms, most_rows, cursor)


def _bottom(scene: Scene, state: ViewState, size: Size) -> tuple[Text, Text]:
    # What was refused stands where the keys are while the message is mended.
    said = visible(state.said)
    if state.draft is not None:
        keys = line(said, "yellow") if said else line(_TYPING_KEYS, "dim")
        return _prompt(state.draft, size.columns), keys
    if state.asks:
        question = f"cancel the whole run {short(scene.run.id)}? y/n"
        return line(question, "bold yellow"), line(_ASKING_KEYS, "dim")
    keys = line(_TALK_KEYS if state.is_reading else _TABLE_KEYS, "dim")
    return line(said or visible(scene.notice), "yellow"), keys


def _prompt(draft: Draft, columns: int) -> Text:
    """Return the line in which a message is typed; its end is always to be seen."""
    when = " at its end" if draft.follow_up else ""
    told = Text(f"to {draft.task}{when}: ", style="bold", no_wrap=True, overflow="crop")
    # One column is the cursor's.
    room = max(1, columns - cell_len(told.plain) - 1)
    told.append(_last_cells(visible(draft.text), room), style="not bold")
    return told.append(" ", style="reverse")


def _last_cells(text: str, room: int) -> str:
    """Return as much of the end of `text` as takes `room` columns."""
    text = text[-room:]
    while cell_len(text) > room:
        text = text[1:]
    return text


def _talk(scene: Scene, state: ViewState, size: Size) -> tuple[Group, int, int]:
    """Return a conversation, how many lines of it fit, and how far it can be scrolled back."""
    page = max(1, size.lines - BOTTOM_LINES - _TITLE_LINES)
    task = scene.view.tasks.get(state.task, TaskView(state.task))
    lines = list(talk_lines(scene.talk, size.columns))
    most_back = max(0, len(lines) - page)
    end = len(lines) - min(state.lines_back, most_back)
    shown = lines[max(0, end - page) : end]
    title = line(_title(scene, task), "bold")
    body = Group(title, *(Text(each, no_wrap=True, overflow="crop") for each in shown))
    return body, page, most_back


def _title(scene: Scene, task: TaskView) -> str:
    parts = [f"{task.task} ({scene.run.agents.get(task.task, 'agent')}) {task.status.value}"]
    if task.attempt > 1:
        parts.append(f"attempt {task.attempt}")
    if task.started_at_ms is not None:
        ended_at_ms = scene.now_ms if task.settled_at_ms is None else task.settled_at_ms
        parts.append(duration(ended_at_ms - task.started_at_ms))
    if what := task.activity or task.reason:
        parts.append(visible(what))
    return ", ".join(parts)


def talk_lines(talk: Talk, columns: int) -> Iterator[str]:
    """Yield the lines of the end of a conversation, wrapped; there is at least one."""
    text = "…"
    if talk.said is not None:
        text = excerpt(talk.said, _SHOWN_CHARS)
        if talk.writing:
            text += f"assistant: {escape(talk.writing)}"
    elif talk.trouble:
        text = escape(talk.trouble)
    for each in text.splitlines() or ["nothing has been said yet"]:
        yield from wrap(each, columns)


def wrap(text: str, columns: int) -> Iterator[str]:
    """Yield one line as several that are no wider than `columns`, cut between words if possible."""
    columns, row, width = max(_NARROWEST, columns), "", 0
    for word in _WORDS.findall(text.expandtabs(4)):
        wide = cell_len(word)
        if width + wide > columns and row:
            yield row
            row, width, word = "", 0, word.lstrip()  # noqa: PLW2901 - what separated two lines is gone
            wide = cell_len(word)
        while wide > columns:
            head = _first_cells(word, columns)
            yield head
            word = word[len(head) :]  # noqa: PLW2901 - the rest of a word that is wider than a line
            wide = cell_len(word)
        row, width = row + word, width + wide
    yield row


def _first_cells(word: str, room: int) -> str:
    head = word[:room]
    while cell_len(head) > room:
        head = head[:-1]
    return head
