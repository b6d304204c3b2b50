import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agents.models.coordinator import CoordinatedModel, Listing, Pieces
from agents.models.port import Model
from agents.models.routes import open_routes
from agents.models.stream import StreamedModel
from agents.roster import load_roster
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import Backend, ModelChoice
from engine.records.host_models import StreamRequest
from pinata.work.lent_models import OUTLIVED, LentModels
from pinata.work.models import (
    ChosenModel,
    ModelSources,
    NoBackendError,
    NoModelError,
    NoPriceError,
    choose_models,
)
from pinata.work.user_pi import PiWay, UserPi
from tests.support.clock import FakeClock
from tests.support.jobs import accepted, job, scout

DEFINITIONS = dict(load_roster().definitions)
LOOK = TaskId("look")
LOCAL = {
    "baseUrl": "http://127.0.0.1:1",
    "api": "openai-completions",
    "apiKey": "planted",
    "models": [{"id": "priced", "cost": {"input": 1, "output": 1}}, {"id": "unpriced"}],
}


@dataclass
class Session:
    """A session's program that lends some models."""

    listings: dict[str, Listing | str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    preferred: ModelChoice | None = None

    async def find(self, provider: str, id_: str) -> Listing | str:
        self.asked.append(f"{provider}/{id_}")
        return self.listings.get(f"{provider}/{id_}", f"Pi has no login for {provider}")

    def ask(self, request: StreamRequest) -> AbstractAsyncContextManager[Pieces]:
        raise NotImplementedError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the user's files."""
    (tmp_path / "models.json").write_text(json.dumps({"providers": {"local": LOCAL}}))
    return tmp_path


def model(name: str) -> dict[str, str]:
    provider, id_ = name.split("/")
    return {"provider": provider, "id": id_, "thinking": "off"}


@asynccontextmanager
async def chosen(
    folder: Path, session: Session | None, *names: str, survive: bool = False, **config: Any
) -> AsyncIterator[list[ChosenModel]]:
    """Choose models for a task each."""
    tasks = [scout(f"t{number}", model=model(name)) for number, name in enumerate(names)]
    spec = accepted(job(*tasks, survive=survive, background=survive, config=config))
    async with open_routes({"PI_CODING_AGENT_DIR": str(folder)}, FakeClock()) as routes:
        lent = LentModels(session, survives=survive)
        pi = UserPi({"PATH": str(folder)}, folder, folder)
        found = await choose_models(spec, DEFINITIONS, ModelSources(routes, folder, pi, lent))
        yield list(found.values())


def opened(found: ChosenModel) -> Model:
    assert not isinstance(found.way, PiWay)
    return found.way(AttemptId(LOOK, 1), {})


async def test_session_is_asked_first_and_once_for_each_model(folder: Path) -> None:
    session = Session({"acme/m1": Listing(9_000, has_price=True)})
    session.listings["local/priced"] = Listing(None, has_price=True)
    async with chosen(folder, session, "acme/m1", "local/priced", "acme/m1") as found:
        models = [opened(each) for each in found]
        assert all(isinstance(each, CoordinatedModel) for each in models)
        assert [(each.provider, each.id) for each in models] == [
            ("acme", "m1"),
            ("local", "priced"),
            ("acme", "m1"),
        ]
        assert models[0] is not models[2]
        assert models[0].context_tokens == 9_000
        assert all(each.has_price for each in found)
    assert session.asked == ["acme/m1", "local/priced"]


async def test_what_the_session_does_not_lend_is_reached_by_the_user_s_own_files(
    folder: Path,
) -> None:
    async with chosen(folder, Session(), "local/priced") as [found]:
        assert isinstance(opened(found), StreamedModel)
        assert found.passed_over == ()


async def test_all_ways_that_were_tried_are_named(folder: Path) -> None:
    with pytest.raises(NoModelError) as caught:
        async with chosen(folder, Session(), "acme/m1"):
            pass
    assert str(caught.value) == (
        "task t0: no model: acme/m1: by the session, Pi has no login for acme; "
        f"no such provider: {folder}/models.json has none of that name"
    )


async def test_price_that_the_session_does_not_know_is_looked_up(folder: Path) -> None:
    names = ("local/priced", "local/unpriced", "acme/m1")
    session = Session(dict.fromkeys(names, Listing(None, has_price=False)))
    async with chosen(folder, session, *names) as found:
        assert all(isinstance(opened(each), CoordinatedModel) for each in found)
        assert [each.has_price for each in found] == [True, False, False]


async def test_limit_in_dollars_needs_a_price_of_lent_models_too(folder: Path) -> None:
    session = Session({"acme/m1": Listing(None, has_price=False)})
    with pytest.raises(NoPriceError):
        async with chosen(folder, session, "acme/m1", limits={"costUsd": 1.0}):
            pass


async def test_run_that_outlives_its_session_borrows_nothing(folder: Path) -> None:
    session = Session({"acme/m1": Listing(None, has_price=True)})
    async with chosen(folder, session, "local/priced", survive=True) as [found]:
        assert isinstance(opened(found), StreamedModel)
    assert session.asked == []
    with pytest.raises(NoModelError, match=OUTLIVED):
        async with chosen(folder, session, "acme/m1", survive=True):
            pass


async def test_agent_that_is_a_pi_of_its_own_borrows_nothing(folder: Path) -> None:
    session = Session({"acme/m1": Listing(None, has_price=True)})
    with pytest.raises((NoBackendError, NoModelError)):
        async with chosen(folder, session, "acme/m1", backend=Backend.PROCESS.value):
            pass
    assert session.asked == []
