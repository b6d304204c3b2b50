"""Arbitrary herds for property tests: few names, so that what may collide often does.

Every strategy is made once: to make one for each draw costs more than the draw.
"""

import functools
from dataclasses import replace
from itertools import product

from hypothesis import strategies as st

from agents.herdsman.identity import AskId, Handle, RequestId, SessionId
from agents.herdsman.presence import Observed, Presence, alias_of
from agents.herdsman.record import (
    Ask,
    Contents,
    NothingPending,
    OnePending,
    Pending,
    Request,
    RequestKind,
    State,
    UnclearPending,
)
from agents.herdsman.runtime import Inventory, Lifecycle, LiveAgent, Slot
from tests.support.herd_records import (
    LEAD,
    NOW_MS,
    WORKSPACE,
    agent_of,
    ask_id,
    inventory_of,
    request,
    result_error,
    session,
    state_of,
)

LABELS = ("a", "b", "c", "d")
SESSIONS = (LEAD, session("other lead"), *(session(label) for label in LABELS))
REQUESTS = tuple(request(name) for name in ("one", "two", "three"))
ONE, TWO, _ = REQUESTS
ASKS = (ask_id("one"), ask_id("two"))
AGES_MS = (-60_000, 0, 300_000, 599_999, 600_000, 3_600_000)

Assignment = tuple[RequestId | None, RequestId | None, AskId | None]
_ASSIGNMENTS: tuple[Assignment | None, ...] = (
    (None, None, None),
    (ONE, None, None),
    (ONE, None, None),
    (ONE, None, ASKS[0]),
    (ONE, None, ASKS[1]),
    (None, ONE, None),
    (TWO, ONE, None),
    None,  # its result could not be written
)
_RESULTS = (frozenset[RequestId](), frozenset[RequestId](), *map(frozenset, ((ONE,), (ONE, TWO))))
_PENDING = (None, None, None, "unclear", *product(RequestKind, REQUESTS, AGES_MS))


def _pending(state: State, choice: object) -> Pending:
    match choice:
        case (RequestKind() as kind, str() as waiting, int() as age_ms):
            made = Request(state.of, RequestId(waiting), kind, "go on", NOW_MS - age_ms)
            return OnePending(made)
        case "unclear":
            return UnclearPending("two requests")
        case _:
            return NothingPending()


def _ask(state: State, choice: str) -> Ask | None:
    """Return the right question, one that is wrong in something, or none."""
    if choice == "none" or state.active is None:
        return None
    right = Ask(
        state.of,
        state.pending_ask or ASKS[0],
        state.active,
        state.session,
        "Which one?",
        NOW_MS,
    )
    wrong = {
        "ask": replace(right, ask=ask_id("else")),
        "request": replace(right, request=request("else")),
        "session": replace(right, session=session("else")),
    }
    return wrong.get(choice, right)


def _mailbox(
    label: str,
    of: tuple[SessionId, str, SessionId | None],
    assignment: Assignment | None,
    age_ms: int | None,
    ask: str,
    more: tuple[object, frozenset[RequestId], bool],
) -> Contents:
    owner, workspace, own_session = of
    active, completed, asked = assignment or (None, None, None)
    state = state_of(
        label,
        owner=owner,
        workspace=workspace,
        session=own_session or session(label),
        active=active,
        completed=completed,
        pending_ask=asked,
        last_activity_ms=None if age_ms is None else NOW_MS - age_ms,
    )
    if assignment is None:
        state = result_error(state, ONE)
    assert state.fault() is None
    pending, results, is_starting = more
    found = _ask(state, ask)
    fault = "it is no JSON" if ask == "fault" and found is None else None
    return Contents(state, found, fault, _pending(state, pending), results, is_starting)


_OF = st.tuples(
    st.sampled_from(SESSIONS),
    st.sampled_from((WORKSPACE, WORKSPACE, WORKSPACE, "/other")),
    st.sampled_from((None, None, None, *SESSIONS)),
)
_MORE = st.tuples(
    st.sampled_from(_PENDING), st.sampled_from(_RESULTS), st.sampled_from((False, False, True))
)
_ASK = st.sampled_from(("none", "fault", "right", "right", "ask", "request", "session"))


@functools.cache
def mailboxes(label: str = "a") -> st.SearchStrategy[Contents]:
    """Whatever the mailbox of an agent may hold that does not contradict itself."""
    return st.builds(
        functools.partial(_mailbox, label),
        _OF,
        st.sampled_from(_ASSIGNMENTS),
        st.sampled_from((None, *AGES_MS)),
        _ASK,
        _MORE,
    )


# The mailboxes of up to four agents, each with a label of its own.
herds: st.SearchStrategy[tuple[Contents, ...]] = st.one_of(
    *(st.tuples(*map(mailboxes, LABELS[:count])) for count in range(len(LABELS) + 1))
)


_LIFECYCLES = st.sampled_from(Lifecycle)
_FATES = st.sampled_from(("there", "there", "gone", "odd"))
_BIT = st.booleans()
_ODD_AGENTS = st.lists(
    st.tuples(_BIT, _BIT, _BIT, _BIT, st.sampled_from((0, 1, 2)), st.sampled_from((0, 1, 2))),
    max_size=2,
)
_ODD_SLOTS = st.lists(st.tuples(_BIT, st.sampled_from((0, 1, 2))), max_size=2)


def _resembling(state: State, bits: tuple[bool, bool, bool, bool, int, int]) -> LiveAgent:
    """Return an agent that is this one but for what the bits change."""
    workspace, handle, other, file, cwd, alias = bits
    return replace(
        agent_of(state),
        workspace="/elsewhere" if workspace else state.of.workspace,
        handle=Handle("elsewhere") if handle else state.handle,
        session=session("else") if other else state.session,
        session_file="/sessions/else.jsonl" if file else state.session_file,
        cwd=(state.cwd, None, "/elsewhere")[cwd],
        alias=(None, alias_of(state.of), "somebody")[alias],
    )


@st.composite
def inventories(draw: st.DrawFn, herd: tuple[Contents, ...]) -> Inventory:
    """An inventory in which some are there, some are not, and some are hard to tell."""
    agents: list[LiveAgent] = []
    slots: list[Slot] = []
    for state in (contents.state for contents in herd):
        match draw(_FATES):
            case "there":
                found = inventory_of([Contents(state)], draw(_LIFECYCLES))
                agents += found.agents
                slots += found.slots
            case "odd":
                agents += (_resembling(state, bits) for bits in draw(_ODD_AGENTS))
                slots += (
                    Slot(
                        Handle("elsewhere") if elsewhere else state.handle,
                        (None, state.session, session("else"))[claim],
                    )
                    for elsewhere, claim in draw(_ODD_SLOTS)
                )
    return Inventory(tuple(agents), tuple(slots))


@st.composite
def herds_and_inventories(draw: st.DrawFn) -> tuple[tuple[Contents, ...], Inventory]:
    """A herd, and what a backend sees of it."""
    herd = draw(herds)
    return herd, draw(inventories(herd))


def observed(contents: Contents, choice: Presence | Lifecycle) -> Observed:
    """Return what is seen of an agent that is in doubt, gone, or there and does something."""
    if isinstance(choice, Presence):
        return Observed(choice)
    return Observed(Presence.LIVE, agent_of(contents.state, choice))


sightings: st.SearchStrategy[Presence | Lifecycle] = st.sampled_from(
    (Presence.LOST, Presence.UNKNOWN, *Lifecycle)
)
