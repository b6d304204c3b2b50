"""What holds for any records and any inventory, however odd."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from hypothesis import given, strategies as st

from agents.herdsman.errors import Category, HerdError
from agents.herdsman.health import Facts, Memory, Notice, Reason, advance, after, condition_of
from agents.herdsman.owed import owed_results
from agents.herdsman.ownership import Family
from agents.herdsman.preflight import (
    ClosePlan,
    check_inspect,
    check_interrupt,
    check_reply,
    check_steer,
    check_transcript,
    plan_close,
)
from agents.herdsman.presence import Observed, Presence, alias_of, observe
from agents.herdsman.projection import (
    AgentState,
    Evidence,
    available_tools,
    is_starting,
    is_terminal,
    project,
)
from agents.herdsman.record import Contents, State
from agents.herdsman.runtime import Inventory
from agents.herdsman.tool_names import CLOSE, INSPECT, INTERRUPT, REPLY, STEER, TRANSCRIPT
from tests.support.herd_arbitrary import (
    SESSIONS,
    herds,
    herds_and_inventories,
    mailboxes,
    observed,
    sightings,
)
from tests.support.herd_records import NOW_MS, WORKSPACE

MINUTE = 60_000
CHILDREN = st.one_of(st.just(()), st.tuples(mailboxes("b")), st.tuples(*map(mailboxes, "bc")))


@st.composite
def evidence(draw: st.DrawFn) -> Evidence:
    contents = draw(mailboxes())
    return Evidence(contents, observed(contents, draw(sightings)), draw(CHILDREN))


def bears_a_trace(state: State, inventory: Inventory) -> bool:
    """Return whether anything in an inventory speaks of a generation."""
    return any(
        agent.handle == state.handle
        or agent.session == state.session
        or agent.session_file == state.session_file
        or agent.alias == alias_of(state.of)
        for agent in inventory.agents
    ) or any(
        slot.handle == state.handle or slot.session == state.session for slot in inventory.slots
    )


@given(herds_and_inventories())
def test_agent_is_lost_only_without_any_trace_and_live_only_as_it_is_recorded(
    given_: tuple[tuple[Contents, ...], Inventory],
) -> None:
    herd, inventory = given_
    for state in (contents.state for contents in herd):
        seen = observe(state.identity, inventory)
        assert (seen.presence is Presence.LOST) is not bears_a_trace(state, inventory)
        assert (seen.agent is not None) is (seen.presence is Presence.LIVE)
        if seen.agent is not None:
            agent = seen.agent
            assert (agent.handle, agent.session, agent.session_file, agent.workspace) == (
                state.handle,
                state.session,
                state.session_file,
                state.of.workspace,
            )
            assert agent.cwd in (None, state.cwd)


@given(evidence())
def test_every_agent_has_a_state_and_what_it_has_finished_counts_before_its_absence(
    one: Evidence,
) -> None:
    state = project(one.contents, one.observed, one.children)
    assert isinstance(state, AgentState)
    if is_terminal(one.contents):
        assert state is AgentState.SETTLING
    if state is AgentState.LOST:
        assert one.observed.presence is Presence.LOST


@given(
    one=evidence(), is_direct=st.booleans(), transcript_ready=st.booleans(), closable=st.booleans()
)
def test_nothing_can_be_called_on_an_agent_in_doubt_or_of_somebody_else(
    *, one: Evidence, is_direct: bool, transcript_ready: bool, closable: bool
) -> None:
    tools = available_tools(
        one, is_direct=is_direct, transcript_ready=transcript_ready, closable=closable
    )
    if not is_direct or one.is_unknown or one.state is AgentState.UNKNOWN:
        assert tools == ()
    order = (INSPECT, TRANSCRIPT, STEER, INTERRUPT, REPLY, CLOSE)
    assert tools == tuple(name for name in order if name in tools)


CHECKS: Sequence[tuple[str, Callable[[Evidence], object]]] = [
    (INSPECT, check_inspect),
    (TRANSCRIPT, lambda one: check_transcript(one, transcript_ready=True)),
    (STEER, check_steer),
    (INTERRUPT, check_interrupt),
    (REPLY, check_reply),
]


@given(evidence())
def test_what_is_listed_is_what_the_call_allows(one: Evidence) -> None:
    listed = available_tools(one, is_direct=True, transcript_ready=True, closable=True)
    for tool, check in CHECKS:
        try:
            check(one)
        except HerdError:
            assert tool not in listed
        else:
            # The screen of an agent whose work nobody can tell may be read all the same.
            assert tool in listed or one.state is AgentState.UNKNOWN


@given(herds)
def test_no_agent_is_shown_to_two_leads_or_twice_and_own_agents_come_first(
    herd: tuple[Contents, ...],
) -> None:
    shown = []
    for session in SESSIONS:
        view = Family(herd, WORKSPACE).below(session)
        shown += [one.contents.state.of.label for one in view]
        assert [one.is_direct for one in view] == sorted(
            (one.is_direct for one in view), reverse=True
        )
        for one in view:
            assert one.is_direct is (one.contents.state.of.owner == session)
            assert one.contents.state.of.workspace == WORKSPACE
    assert len(shown) == len(set(shown))


@given(herds)
def test_delegating_agent_is_shown_those_that_name_it_and_nobody_else(
    herd: tuple[Contents, ...],
) -> None:
    for session in SESSIONS:
        shown = {one.state.of.label for one in Family(herd, WORKSPACE).working_for(session)}
        assert shown == {
            one.state.of.label
            for one in herd
            if one.state.of.owner == session and one.state.of.workspace == WORKSPACE
        }


def planned(
    target: Contents, herd: tuple[Contents, ...], inventory: Inventory, *, is_lead: bool
) -> ClosePlan | None:
    """Return what closing an agent closes; None when it is refused as it may be."""

    def seen(state: State) -> Observed:
        return observe(state.identity, inventory)

    family = Family(herd, WORKSPACE)
    try:
        return plan_close(target, family, seen, is_lead=is_lead, unreadable=())
    except HerdError as error:
        if error.trouble.category in (Category.TARGET_AMBIGUOUS, Category.AGENT_BUSY):
            return None
        raise


@given(given_=herds_and_inventories(), is_lead=st.booleans())
def test_plan_closes_all_that_is_below_children_first_and_loses_nothing(
    *, given_: tuple[tuple[Contents, ...], Inventory], is_lead: bool
) -> None:
    herd, inventory = given_
    family = Family(herd, WORKSPACE)
    for target in herd:
        plan = planned(target, herd, inventory, is_lead=is_lead)
        if target.state.of.workspace != WORKSPACE or plan is None:
            continue
        assert plan.target.contents == target
        order = [step.identity for step in plan.steps]
        assert len(order) == len(set(order))
        for place, step in enumerate(plan.steps):
            assert observe(step.identity, inventory) == step.observed
            assert step.observed.presence is not Presence.UNKNOWN
            is_orphan = step.parent is not None and (
                observe(step.parent, inventory).presence is Presence.LOST
            )
            assert step.is_orphan == is_orphan
            assert is_orphan or not owed_results(step.contents)
            assert not is_starting(step.contents)
            assert step.parent is None or order.index(step.parent) > place
            if is_lead:
                children = {one.state.identity for one in family.working_for(step.identity.session)}
                assert children <= set(order[:place])


@st.composite
def sights(draw: st.DrawFn, label: str) -> Facts:
    contents = draw(mailboxes(label))
    seen = observed(contents, draw(sightings))
    return Facts(Evidence(contents, seen), (INSPECT,), draw(st.booleans()))


# What an owner of two agents may see: a few sights of each, and a course through these in which
# most looks find what the one before found.
SIGHTS = st.tuples(*(st.tuples(*(sights(label) for _ in range(3))) for label in "ab"))
COURSES = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 2), st.sampled_from((30, 60, 300)), st.integers(1, 4)
    ),
    min_size=1,
    max_size=8,
)


@given(SIGHTS, COURSES)
def test_owner_is_told_only_of_what_holds_and_of_an_unknown_phase_once(
    pools: tuple[tuple[Facts, ...], ...], course: list[tuple[int, int, int, int]]
) -> None:
    memory: Memory = {}
    now_ms = NOW_MS
    told: dict[str, list[Notice]] = {}
    unknown_phases: dict[str, int] = {}
    unknown_now: frozenset[str] = frozenset()
    for first, second, wait_s, looks in course:
        seen = [pools[0][first], pools[1][second]]
        for _ in range(looks):
            now_ms += wait_s * 1000
            memory, notice = advance(memory, seen, now_ms)
            reasons = {one.generation: condition_of(one, now_ms) for one in seen}
            before, unknown_now = (
                unknown_now,
                frozenset(
                    name
                    for name, found in reasons.items()
                    if found and found.reason is Reason.UNKNOWN
                ),
            )
            for name in unknown_now - before:
                unknown_phases[name] = unknown_phases.get(name, 0) + 1
            if notice is not None:
                assert notice.facts in seen
                assert notice.condition == reasons[notice.facts.generation]
                assert notice.facts.evidence.state is not AgentState.STARTING
                memory = after(memory, notice)
                told.setdefault(notice.facts.generation, []).append(notice)
    for name, notices in told.items():
        reported = sum(one.condition.reason is Reason.UNKNOWN for one in notices)
        assert reported <= unknown_phases.get(name, 0)
        for earlier, later in pairwise(notices):
            if later.number > 1:
                assert later.number == earlier.number + 1
                assert later.now_ms - earlier.now_ms >= MINUTE
