"""Closing an agent: it is stopped, with all that work for it before it, and its records removed.

Who works for another goes before it, and the state file last of its mailbox, so that what is left
after a failure can be found and closed again. Saved sessions and results are never touched. Where
an agent is gone that was to be brought a result, the text of that is kept where all texts are.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from agents.herdsman.artifacts import Provenance, save_artifact
from agents.herdsman.controller import Controller
from agents.herdsman.errors import HerdError, ambiguous, broken
from agents.herdsman.identity import Identity, Label, RequestId
from agents.herdsman.mailbox import Mailbox, check_same
from agents.herdsman.mailbox_locks import delegation_lock, lifecycle_lock
from agents.herdsman.owed import owed_results
from agents.herdsman.preflight import ClosePlan, CloseStep, check_closable
from agents.herdsman.presence import Presence
from agents.herdsman.record import Contents, State
from agents.herdsman.record_form import UnreadableRecordError
from agents.herdsman.references import Canonical
from engine.core.errors import PinataError

_CLOSE: Final = "close"


async def close(controller: Controller, *, agent: str) -> dict[str, Any]:
    """Close an agent of the caller's own, after all that work for it.

    A question that it waits with is given up. What was closed before a failure stays closed.

    Returns:
        With `cleanup_error` where the agent is gone and its records could not be removed, and with
        `kept_results` where agents below it had results for one that is gone: what these are known
        by from now on, by the labels of their agents.

    Raises:
        HerdError: the agent was not closed; `details` name those below it that were.
    """
    found = (await controller.look()).find(controller.caller, agent)
    closing = _Closing(controller, found.contents.state.identity)
    try:
        await closing.run()
    except HerdError as error:
        ids = {**_ids(closing.target), **error.trouble.ids}
        details = dict(error.trouble.details)
        if closing.closed:
            details["closed"] = list(closing.closed)
        raise error.told(operation=_CLOSE, ids=ids, details=details) from error
    answer: dict[str, Any] = {"action": _CLOSE, "agent": agent}
    if closing.kept:
        answer["kept_results"] = dict(closing.kept)
    cleanup_error = controller.endings.cleanup_errors.get(closing.target.of.generation)
    return answer if cleanup_error is None else {**answer, "cleanup_error": cleanup_error}


async def finish_closing(controller: Controller) -> None:
    """Remove what earlier calls closed and could not remove; what still cannot be is left as it is.

    Raises:
        HerdError: it cannot be told what is there (INTERNAL_FAILURE).
    """
    if not controller.endings.cleanup_errors:
        return
    seen = await controller.look()
    found = {one.state.of.generation: one for one in seen.scan.contents}
    for generation in tuple(controller.endings.cleanup_errors):
        if generation not in found:
            del controller.endings.cleanup_errors[generation]
            continue
        identity = found[generation].state.identity
        try:
            async with _mailbox(controller, identity).claim():
                await _Closing(controller, identity).end(identity)
        except HerdError as error:
            controller.endings.cleanup_errors[generation] = str(error)


async def clear_away(controller: Controller, identity: Identity) -> None:
    """End an agent of the caller's own whose work is delivered, after all that work for it.

    Raises:
        HerdError: it is there still, or its records are.
    """
    closing = _Closing(controller, identity)
    seen = await controller.look()
    found = seen.find(controller.caller, identity.of.label, workspace=identity.of.workspace)
    check_same(identity, found.contents)
    is_hiding = controller.caller.is_lead and seen.may_have_hidden(found.contents)
    if found.children or is_hiding:
        await closing.run()
    else:
        async with _mailbox(controller, identity).claim():
            await closing.end(identity)
    left = controller.endings.cleanup_errors.get(identity.of.generation)
    if left is not None:
        raise broken(f"its records cannot be removed: {left}")


@dataclass(slots=True)
class _Closing:
    """One close.

    Attributes:
        target: the agent of the call.
        closed: those below it that are closed.
        kept: what the results of those below it are known by that nobody can be brought any more.
    """

    controller: Controller
    target: Identity
    closed: list[Label] = field(default_factory=list)
    kept: dict[Label, str] = field(default_factory=dict)

    async def run(self) -> None:
        """Close all.

        Raises:
            HerdError: see `close`.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.controller.claim_delegation())
            # The agent starts and tells no others from here on.
            of = self.target.of
            theirs = delegation_lock(self.controller.premises, of.workspace, self.target.session)
            await stack.enter_async_context(theirs)
            await stack.enter_async_context(_mailbox(self.controller, self.target).claim())
            plan = await self._plan()
            while plan.below:
                await self._close_below(plan.below[0])
                plan = await self._plan()
            await self.end(self.target)

    async def end(self, identity: Identity, *, is_orphan: bool = False) -> None:
        """Stop one agent and remove its records, whose lock is held.

        The result of an orphan is kept; see `CloseStep`. That the records cannot be removed is no
        failure: the agent is gone, and it is remembered.

        Raises:
            HerdError: its records are all there; it may have been stopped.
        """
        generation, closed = identity.of.generation, self.controller.endings.closed
        was_closed = generation in closed
        closed.add(generation)
        try:
            await self._end(identity, is_orphan=is_orphan)
        except BaseException:
            if not was_closed:
                closed.discard(generation)
            raise

    async def _end(self, identity: Identity, *, is_orphan: bool) -> None:
        mailbox = _mailbox(self.controller, identity)
        seen = await self.controller.look()
        contents = await mailbox.read_exact(identity)
        observed = seen.observe(contents.state)
        check_closable(contents, observed, is_orphan=is_orphan)
        if observed.presence is Presence.LIVE:
            contents = await self._stop(mailbox, identity, is_orphan=is_orphan)
        for request in owed_results(contents):
            await self._keep(mailbox, contents.state, request)
        generation, errors = identity.of.generation, self.controller.endings.cleanup_errors
        try:
            await mailbox.remove()
        except PinataError as error:
            errors[generation] = str(error)
        else:
            errors.pop(generation, None)

    async def _stop(self, mailbox: Mailbox, identity: Identity, *, is_orphan: bool) -> Contents:
        """Stop an agent; return what is in its mailbox then."""
        async with lifecycle_lock(self.controller.premises, identity.of.workspace):
            await self.controller.runtime.stop(identity)
        contents = await mailbox.read_exact(identity)
        if owed_results(contents) and not is_orphan:
            raise ambiguous(
                f"agent {identity.of.label!r} has produced a result while it was stopped",
                next_action="go on: the result is delivered, and the agent closed, by itself",
            )
        if (await self.controller.look()).observe(contents.state).presence is not Presence.LOST:
            raise broken(
                f"agent {identity.of.label!r} is still there after it was stopped",
                next_action="call agent_list, and close it again if that is offered",
            )
        return contents

    async def _keep(self, mailbox: Mailbox, state: State, request: RequestId) -> None:
        """Keep the text of a result for good; one that failed has none.

        Raises:
            HerdError: it cannot be kept (INTERNAL_FAILURE), or not be read (TARGET_AMBIGUOUS).
        """
        label = state.of.label
        try:
            result = await mailbox.read_result(request)
        except UnreadableRecordError as error:
            raise ambiguous(f"the result of agent {label!r} cannot be read: {error}") from error
        if result is not None and result.text is not None:
            premises = self.controller.premises
            await save_artifact(premises, request, Provenance.of(state), result.text)
            self.kept[label] = str(Canonical(request))

    async def _close_below(self, step: CloseStep) -> None:
        """Close an agent that works for another; its records must be gone then.

        Raises:
            HerdError: with what names it, and the agent that it works for.
        """
        identity = step.identity
        try:
            async with _mailbox(self.controller, identity).claim():
                await self.end(identity, is_orphan=step.is_orphan)
            left = self.controller.endings.cleanup_errors.get(identity.of.generation)
            if left is not None:
                raise broken(
                    f"the records of agent {identity.of.label!r} cannot be removed: {left}",
                    next_action=f"close agent {self.target.of.label!r} again",
                )
        except HerdError as error:
            assert step.parent is not None
            details = {**error.trouble.details, "parent": step.parent.of.label}
            raise error.told(ids=_ids(identity), details=details) from error
        self.closed.append(identity.of.label)

    async def _plan(self) -> ClosePlan:
        """Return what is to be closed, by a fresh look.

        Raises:
            HerdError: the agent is not the one it was, or something cannot be proved.
        """
        seen, caller, of = await self.controller.look(), self.controller.caller, self.target.of
        contents = seen.find(caller, of.label, workspace=of.workspace).contents
        return seen.plan_close(caller, check_same(self.target, contents))


def _mailbox(controller: Controller, identity: Identity) -> Mailbox:
    return Mailbox.of_generation(controller.premises, identity.of)


def _ids(identity: Identity) -> dict[str, str]:
    return {
        "agent": identity.of.label,
        "pane_id": identity.of.handle,
        "session_id": identity.session,
    }
