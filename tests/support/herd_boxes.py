"""Mailboxes on a real disk, and what may be put into them."""

from dataclasses import dataclass
from pathlib import Path

from agents.herdsman.identity import Label, RequestId
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.premises import Premises
from agents.herdsman.record import Ask, Request, RequestKind, Result, State
from tests.support.clock import FakeClock
from tests.support.herd_records import NOW_MS, TASK, WORKSPACE, ask_id, request, state_of


def premises_at(path: Path) -> Premises:
    """Return the herd's data below `path`, of which nothing is there yet."""
    return Premises(path / "data" / "herd", FakeClock(NOW_MS), "a test")


def box_of(premises: Premises, label: str = "scout", workspace: str = WORKSPACE) -> Mailbox:
    return Mailbox.of(premises, workspace, Label(label))


def steer(state: State, name: str = "steer", text: str = "go on") -> Request:
    return Request(state.of, request(name), RequestKind.STEER, text, NOW_MS)


def question(state: State) -> Ask:
    assert state.active is not None
    return Ask(state.of, ask_id("which"), state.active, state.session, "Which?", NOW_MS)


def result(state: State, of: RequestId = TASK, text: str = "done") -> Result:
    return Result(state.of, of, "completed", NOW_MS, text)


@dataclass(frozen=True, slots=True)
class Full:
    """A mailbox that holds a record of each kind."""

    mailbox: Mailbox
    state: State

    @classmethod
    async def at(cls, premises: Premises, label: str = "scout") -> "Full":
        mailbox, state = box_of(premises, label), state_of(label, active=TASK)
        await mailbox.write_state(state, creates=True)
        await mailbox.write_request(steer(state))
        await mailbox.write_ask(question(state))
        await mailbox.write_result(result(state))
        return cls(mailbox, state)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all that is below a folder: what files hold, and None for the rest."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
