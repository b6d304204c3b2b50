"""What an agent owes its owner still, as its mailbox and its owner's history tell. Pure.

A result is delivered once its owner's history holds its message; until then it is owed.
"""

from collections.abc import Sequence

from agents.herdsman.identity import RequestId
from agents.herdsman.record import Contents, OnePending, State, UnclearPending
from agents.herdsman.result_text import Others, is_delivered
from agents.herdsman.runtime import Entry


def owed_results(contents: Contents) -> frozenset[RequestId]:
    """Return the results in a mailbox that its owner is owed, readable or not.

    Where the request that waits there cannot be told, any of them may be its result.
    """
    waiting = contents.pending
    if isinstance(waiting, UnclearPending):
        return contents.results
    owed = {contents.state.active, contents.state.completed}
    if isinstance(waiting, OnePending):
        owed.add(waiting.request.request)
    return contents.results & owed


def untold_results(contents: Contents, entries: Sequence[Entry]) -> frozenset[RequestId]:
    """Return the results in a mailbox that are owed and not in its owner's history yet."""
    owed = owed_results(contents)
    return frozenset(one for one in owed if not is_delivered(contents.state, one, entries))


def task_to_deliver(contents: Contents) -> RequestId | None:
    """Return the task whose result is to be delivered, or was, so that its agent can go.

    The result of one that counts as completed may be gone.
    """
    state = contents.state
    named = (one for one in (state.completed, state.active) if one in contents.results)
    return next(named, state.completed)


def owes_work(contents: Contents, entries: Sequence[Entry] | None = None) -> bool:
    """Return whether an agent has a task, or a result that is not delivered, or one that was lost.

    Args:
        contents: its mailbox.
        entries: of its owner's history. Without them, a completed task counts as delivered once
            its result is removed.
    """
    state = contents.state
    if state.result_error is not None or state.active is not None:
        return True
    if state.completed is None:
        return False
    if entries is None:
        return state.completed in contents.results
    return not is_delivered(state, state.completed, entries)


def others_of(own: Sequence[Contents], this: State) -> Others:
    """Return how many agents of an owner there are beside this one, by their full identities."""
    rest = [one for one in own if one.state.identity != this.identity]
    pending = [one for one in rest if task_to_deliver(one) is not None]
    active = [one for one in rest if one.state.active is not None and one not in pending]
    return Others(len(active), len(pending))
