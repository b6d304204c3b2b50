"""What a person does in a view of a run, key by key. Pure: a state and a key in, a state out."""

from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum, auto

from engine.core.ids import TaskId
from pinata.faces.view_keys import PASTE_LIMIT_BYTES, Key, Named, Pasted, Typed


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that is being typed; see `SteerDelivered` for a follow-up."""

    task: TaskId
    text: str = ""
    follow_up: bool = False


@dataclass(frozen=True, slots=True)
class ViewState:
    """What the view shows, and what the next key is about.

    Attributes:
        task: the one that the cursor is on.
        has_moved: a person has moved the cursor.
        is_reading: the conversation of the task is shown instead of the table.
        lines_back: how far that is scrolled back from its end.
        draft: a message that is being typed.
        asks: whether the run shall really be cancelled is being asked.
        said: what became of the last request, until the next key.
    """

    task: TaskId
    has_moved: bool = False
    is_reading: bool = False
    lines_back: int = 0
    draft: Draft | None = None
    asks: bool = False
    said: str = ""

    @property
    def is_busy(self) -> bool:
        """Whether a person is in the middle of something that must not be taken away."""
        return self.is_reading or self.asks or self.draft is not None


@dataclass(frozen=True, slots=True)
class Sight:
    """What the view shows at the moment of a key.

    Attributes:
        tasks: all of the run, in the order of their rows; at least one.
        running: those that have an agent at work.
        page: how many lines or rows there is room for.
        most_back: how far the conversation can be scrolled back.
    """

    tasks: Sequence[TaskId]
    running: AbstractSet[TaskId]
    page: int
    most_back: int


@dataclass(frozen=True, slots=True)
class Steer:
    """Leave a message for the agent of a task."""

    message: Draft


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ask a task to end, or the whole run where none is named."""

    task: TaskId | None


class Act(Enum):
    """What concerns the terminal alone."""

    LEAVE = auto()
    REDRAW = auto()


class Ending(Enum):
    """Why a view is over.

    Attributes:
        LEFT: its person has left it; the run goes on.
        ENDED: nothing more happens in the run that could be seen from here.
        LOST: whoever owned the run is gone, and the run has not settled.
    """

    LEFT = auto()
    ENDED = auto()
    LOST = auto()


Effect = Steer | Cancel | Act
Step = tuple[ViewState, Effect | None]

_UP = {Named.UP, Typed("k")}
_DOWN = {Named.DOWN, Typed("j")}
_FIRST = {Named.HOME, Typed("g")}
_LAST = {Named.END, Typed("G")}
_BACK = {Named.ESCAPE, Typed("q")}


def press(state: ViewState, key: Key, sight: Sight) -> Step:
    """Return what is shown after `key`, and what else is to be done because of it."""
    if key is Named.INTERRUPT:
        return state, Act.LEAVE
    if key is Named.REDRAW:
        return state, Act.REDRAW
    state = replace(state, said="")
    if state.asks:
        return _answer(state, key)
    if state.draft is not None:
        return _type(state, state.draft, key)
    if (step := _command(state, key, sight)) is not None:
        return step
    return (_scroll if state.is_reading else _move)(state, key, sight)


def returned(state: ViewState, message: Draft, reason: str) -> ViewState:
    """Return the state after a message was refused: it can be mended, unless another is typed."""
    if state.draft is None and not state.asks:
        state = replace(state, draft=message)
    return replace(state, said=reason)


def _answer(state: ViewState, key: Key) -> Step:
    if key in (Typed("y"), Typed("Y")):
        return replace(state, asks=False), Cancel(None)
    return replace(state, asks=False, said="the run goes on"), None


def _type(state: ViewState, draft: Draft, key: Key) -> Step:
    match key:
        case Named.ESCAPE:
            return replace(state, draft=None), None
        case Named.ENTER:
            effect = Steer(draft) if draft.text.strip() else None
            return replace(state, draft=None), effect
        case Named.TAB:
            return replace(state, draft=replace(draft, follow_up=not draft.follow_up)), None
        case _:
            return replace(state, draft=replace(draft, text=_edited(draft.text, key))), None


def _edited(text: str, key: Key) -> str:
    match key:
        case Typed(character=more) | Pasted(text=more):
            return (text + more)[:PASTE_LIMIT_BYTES]
        case Named.BACKSPACE:
            return text[:-1]
        case Named.ERASE_LINE:
            return ""
        case Named.ERASE_WORD:
            kept = text.rstrip()
            return kept[: max(kept.rfind(" "), kept.rfind("\n")) + 1]
        case _:
            return text


def _command(state: ViewState, key: Key, sight: Sight) -> Step | None:
    """Return what a key does wherever the cursor is; None when it is none of these."""
    match key:
        case Typed("s" | "S"):
            if state.task not in sight.running:
                said = (
                    f"{state.task} is not running: only the agent of a running task reads messages"
                )
                return replace(state, said=said), None
            draft = Draft(state.task, follow_up=key == Typed("S"))
            return replace(state, draft=draft), None
        case Typed("c"):
            return state, Cancel(state.task)
        case Typed("C"):
            return replace(state, asks=True), None
        case _:
            return None


def _scroll(state: ViewState, key: Key, sight: Sight) -> Step:
    if key in _BACK or key is Named.ENTER:
        return replace(state, is_reading=False, lines_back=0), None
    back = min(state.lines_back, sight.most_back)
    if key in _FIRST or key in _LAST:
        back = sight.most_back if key in _FIRST else 0
    elif (by := _distance(key, sight.page)) is not None:
        back = max(0, min(back - by, sight.most_back))
    return replace(state, lines_back=back), None


def _move(state: ViewState, key: Key, sight: Sight) -> Step:
    if key in _BACK:
        return state, Act.LEAVE
    if key is Named.ENTER:
        return replace(state, is_reading=True, lines_back=0), None
    last = len(sight.tasks) - 1
    if key in _FIRST or key in _LAST:
        at = 0 if key in _FIRST else last
    elif (by := _distance(key, sight.page)) is not None:
        at = max(0, min(sight.tasks.index(state.task) + by, last))
    else:
        return state, None
    return replace(state, task=sight.tasks[at], has_moved=True), None


def _distance(key: Key, page: int) -> int | None:
    """Return how many lines down a key leads, negative for up; None when it leads nowhere."""
    if key in _UP or key in _DOWN:
        return 1 if key in _DOWN else -1
    pages = {Named.PAGE_UP: -page, Named.PAGE_DOWN: page, Typed(" "): page}
    return pages.get(key)
