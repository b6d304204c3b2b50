"""Which models agents can have that are a Pi of their own, told before a run starts."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agents.models.port import Usage
from agents.models.routes import PiRoute, open_routes, unknown_price
from agents.roster import load_roster
from engine.core.ids import TaskId
from engine.core.spec import Backend
from pinata.work.models import (
    ChosenModel,
    ModelSources,
    NoBackendError,
    NoModelError,
    NoPriceError,
    choose_models,
)
from pinata.work.user_pi import PiWay, UserPi, lack_notices
from tests.support.clock import FakeClock
from tests.support.jobs import accepted, job, scout
from tests.support.real_pi import fake_pi

LOOK = TaskId("look")
ROUTE = PiRoute(unknown_price, has_price=False)
PROVIDERS = {
    "loop": {
        "baseUrl": "http://127.0.0.1:1",
        "api": "anthropic-messages",
        "apiKey": "planted",
        "models": [{"id": "priced", "cost": {"input": 1, "output": 1}}, {"id": "free"}],
    }
}
AUTH = {"anthropic": {"type": "oauth"}, "google": {"type": "oauth"}}
KEY = {"OPENAI_API_KEY": "planted"}


def model(name: str) -> dict[str, str]:
    provider, _, id_ = name.partition("/")
    return {"provider": provider, "id": id_, "thinking": "off"}


@asynccontextmanager
async def chosen(
    folder: Path, *, survive: bool = False, has_pi: bool = True, **config: Any
) -> AsyncIterator[ChosenModel]:
    """Choose the model of a scout's task; `process` unless the run survives."""
    (folder / "models.json").write_text(json.dumps({"providers": PROVIDERS}))
    (folder / "auth.json").write_text(json.dumps(AUTH))
    path = fake_pi(folder / "installed") if has_pi else str(folder)
    request = job(scout(), config={"backend": "in-process" if survive else "process"} | config)
    spec = accepted(request | {"survive": survive, "background": survive})
    user = UserPi({"PATH": path}, folder, folder)
    environment = {"PI_CODING_AGENT_DIR": str(folder)} | KEY
    async with open_routes(environment, FakeClock()) as routes:
        sources = ModelSources(routes, folder, user)
        found = await choose_models(spec, load_roster().definitions, sources)
        yield found[LOOK]


async def refusal_of(folder: Path, name: str, **rest: Any) -> str:
    """Return the sentence that refuses a job which names a model."""
    with pytest.raises((NoModelError, NoPriceError, NoBackendError)) as caught:
        async with chosen(folder, models={"default": model(name)}, **rest):
            pass
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "cost_usd"), [("loop/priced", 1e-5), ("loop/free", None), ("google/gemini", None)]
)
async def test_a_model_that_pi_can_log_in_to_is_taken(
    tmp_path: Path, name: str, cost_usd: float | None
) -> None:
    async with chosen(tmp_path, models={"default": model(name)}) as found:
        assert isinstance(found.way, PiWay)
        assert found.backend is Backend.PROCESS
        assert found.way.route.price(Usage(5, 5)) == cost_usd
        assert found.has_price is (cost_usd is not None)
        assert "planted" not in repr(found)


async def test_a_login_has_the_price_that_public_lists_know(tmp_path: Path) -> None:
    name = {"default": model("anthropic/claude-sonnet-4-5")}
    async with chosen(tmp_path, models=name, limits={"costUsd": 1}) as found:
        assert found.has_price


async def test_models_that_pi_cannot_ask_are_refused_with_the_remedy(tmp_path: Path) -> None:
    said = await refusal_of(tmp_path, "openai/gpt-5")
    assert said.startswith(
        "task look: no model: openai/gpt-5: its key is only in the environment ($OPENAI_API_KEY),"
    )
    assert said.endswith("or use the backend in-process")


async def test_a_script_plays_in_process_only(tmp_path: Path) -> None:
    assert await refusal_of(tmp_path, "scripted/x.json") == (
        "task look: no model: scripted/x.json: a script is played by the backend in-process only"
    )


async def test_a_limit_in_dollars_needs_a_price_that_is_known_beforehand(tmp_path: Path) -> None:
    said = await refusal_of(tmp_path, "google/gemini", limits={"costUsd": 1})
    assert said.startswith("task look: limits.costUsd is set, but nobody knows the price of google")


async def test_a_fallback_is_found_where_pi_cannot_ask_the_first(tmp_path: Path) -> None:
    names: dict[str, Any] = {"models": {"default": model("openai/gpt-5")}}
    names["fallbacks"] = {"scout": [model("loop/free")]}
    async with chosen(tmp_path, **names) as found:
        assert found.name == "loop/free"
        assert found.passed_over[0].startswith("openai/gpt-5: its key is only in the environment")


async def test_a_run_that_survives_falls_back_to_logins_of_pis_own(tmp_path: Path) -> None:
    async with chosen(tmp_path, survive=True, models={"default": model("google/gemini")}) as found:
        assert found.backend is Backend.PROCESS


async def test_a_run_that_survives_stays_in_process_where_it_can(tmp_path: Path) -> None:
    async with chosen(tmp_path, survive=True, models={"default": model("openai/gpt-5")}) as found:
        assert found.backend is Backend.IN_PROCESS


async def test_a_run_that_survives_without_any_way_is_told_both(tmp_path: Path) -> None:
    said = await refusal_of(tmp_path, "google/gemini", survive=True, has_pi=False)
    assert "google/gemini: no such provider" in said
    assert "google/gemini: there is no pi on PATH" in said


async def test_a_pi_is_looked_for_once_and_only_where_one_is_needed(tmp_path: Path) -> None:
    user = UserPi({"PATH": str(tmp_path)}, tmp_path, tmp_path)
    first = [await refusal(user) for _ in range(2)]
    assert first[0] is first[1]
    path = fake_pi(tmp_path / "installed")
    user = UserPi({"PATH": path}, tmp_path, tmp_path)
    ways = [await user.way(ROUTE) for _ in range(2)]
    assert ways[0].program is ways[1].program
    assert ways[0].missing == {"grep": "rg", "find": "fd"}


async def refusal(user: UserPi) -> BaseException:
    """Return why there is no Pi."""
    with pytest.raises(Exception, match="no pi on PATH") as caught:
        await user.way(ROUTE)
    return caught.value


async def test_what_a_pi_cannot_offer_is_told_once_for_all_its_agents(tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    user = UserPi({"PATH": fake_pi(tmp_path / "installed")}, tmp_path, tmp_path)
    way = await user.way(ROUTE)
    tools = {"look": ("read", "grep", "find"), "fix": ("read", "bash"), "judge": ("grep", "ls")}
    ways: Mapping[str, tuple[PiWay, tuple[str, ...]]] = {
        task: (way, each) for task, each in tools.items()
    }
    assert lack_notices(ways) == [
        "without rg and fd on PATH, the Pi of tasks look and judge offers no grep and find"
    ]
    assert lack_notices({"judge": ways["judge"]}) == [
        "without rg on PATH, the Pi of task judge offers no grep"
    ]
    assert lack_notices({"fix": ways["fix"]}) == []
    for name in ("rg", "fd"):
        (bin_ / name).touch()  # as Pi keeps what it fetched
    again = await UserPi(user.environment, tmp_path, tmp_path).way(ROUTE)
    assert again.missing == {}
