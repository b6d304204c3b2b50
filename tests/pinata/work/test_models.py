"""Which model works on which task."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from agents.models.pi_files import FaultyFileError
from agents.models.port import TextPiece
from agents.models.routes import open_routes
from agents.models.script import ScriptError
from agents.models.scripted import ScriptedModel
from agents.roster import load_roster
from engine.core.events import TextDelta
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import ModelChoice, Thinking
from engine.records.event import Logged
from pinata import app
from pinata.work.models import (
    ChosenModel,
    ModelSources,
    NoBackendError,
    NoModelError,
    NoPriceError,
    choose_models,
    script_notices,
    with_session_model,
)
from pinata.work.user_pi import PiWay, UserPi
from tests.support import projects
from tests.support.clock import FakeClock
from tests.support.jobs import accepted, job, scout
from tests.support.model_server import After, Spoken, open_model_server
from tests.support.projects import Project, reports, statuses

DEFINITIONS = dict(load_roster().definitions)
LOOK = TaskId("look")
PRICED = {"id": "priced", "cost": {"input": 1, "output": 1}}
LOOP = {
    "baseUrl": "http://127.0.0.1:1",
    "api": "anthropic-messages",
    "apiKey": "planted",
    "models": [PRICED, {"id": "free"}],
}
KEYLESS = {**LOOP, "apiKey": "$NOT_SET"}


def model(provider: str, id_: str) -> dict[str, str]:
    return {"provider": provider, "id": id_, "thinking": "off"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script and the files of a user."""
    (tmp_path / "script.yaml").write_text("look: [{text: hello}]")
    providers = {"loop": LOOP, "keyless": KEYLESS}
    (tmp_path / "models.json").write_text(json.dumps({"providers": providers}))
    return tmp_path


def no_pi(folder: Path) -> UserPi:
    """Return what looks for a Pi where there is none."""
    return UserPi({"PATH": str(folder)}, folder, folder)


@asynccontextmanager
async def chosen(
    folder: Path, *tasks: object, **config: object
) -> AsyncIterator[Mapping[TaskId, ChosenModel]]:
    """Choose the models of a job's tasks."""
    spec = accepted(job(*(tasks or (scout(),)), config=config))
    async with open_routes({"PI_CODING_AGENT_DIR": str(folder)}, FakeClock()) as routes:
        yield await choose_models(spec, DEFINITIONS, ModelSources(routes, folder, no_pi(folder)))


async def notices_of(folder: Path, turns: Mapping[str, object], *tasks: object) -> list[str]:
    """Return what is said of a script when models are chosen for a job that uses it."""
    (folder / "script.json").write_text(json.dumps(turns))
    spec = accepted(job(*tasks, config={"models": {"default": model("scripted", "script.json")}}))
    async with open_routes({"PI_CODING_AGENT_DIR": str(folder)}, FakeClock()) as routes:
        sources = ModelSources(routes, folder, no_pi(folder))
        await choose_models(spec, DEFINITIONS, sources)
        return script_notices(spec, sources)


async def refusal_of(folder: Path, *tasks: object, **config: object) -> str:
    """Return the sentence that refuses a job for its models."""
    with pytest.raises((NoModelError, NoPriceError)) as caught:
        async with chosen(folder, *tasks, **config):
            pass
    return str(caught.value)


async def test_the_most_particular_choice_is_preferred(folder: Path) -> None:
    models = {"default": model("loop", "free"), "builder": model("loop", "priced")}
    own = scout("own", model=model("scripted", "script.yaml"))
    async with chosen(folder, scout(), own, models=models) as found:
        names = {task: one.name for task, one in found.items()}
    assert names == {LOOK: "loop/free", TaskId("own"): "scripted/script.yaml"}
    models["scout"] = model("loop", "priced")
    async with chosen(folder, models=models) as found:
        assert found[LOOK].name == "loop/priced"


async def test_without_any_other_choice_the_definition_s_model_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(DEFINITIONS["scout"], model=("loop", "priced"), thinking=Thinking.HIGH)
    monkeypatch.setitem(DEFINITIONS, "scout", own)
    async with chosen(folder) as found:
        assert found[LOOK].choice == ModelChoice("loop", "priced", Thinking.HIGH)
    async with chosen(folder, models={"default": model("loop", "free")}) as found:
        assert found[LOOK].name == "loop/free"


async def test_a_model_of_its_own_is_opened_for_each_attempt(folder: Path) -> None:
    models = {"default": model("scripted", "script.yaml"), "scout": model("loop", "free")}
    own = scout("own", model=models["default"])
    async with chosen(folder, scout(), own, models=models) as found:
        own_way, way = found[TaskId("own")].way, found[LOOK].way
        assert not isinstance(own_way, PiWay)
        assert not isinstance(way, PiWay)
        scripted = own_way(AttemptId(TaskId("own"), 2), {})
        real = way(AttemptId(LOOK, 1), {})
    assert isinstance(scripted, ScriptedModel)
    assert (real.provider, real.id) == ("loop", "free")
    assert "planted" not in repr(found)


async def test_a_fallback_is_used_and_says_what_was_passed_over(folder: Path) -> None:
    fallbacks = {"scout": [model("nobody", "x"), model("loop", "free"), model("loop", "priced")]}
    models = {"default": model("keyless", "free")}
    async with chosen(folder, models=models, fallbacks=fallbacks) as found:
        assert found[LOOK].name == "loop/free"
        first, second = found[LOOK].passed_over
    assert first.startswith("keyless/free: its apiKey in models.json is the variable NOT_SET")
    assert second.startswith("nobody/x: no such provider")


async def test_without_any_reachable_model_all_reasons_are_listed(folder: Path) -> None:
    refused = await refusal_of(
        folder,
        models={"default": model("keyless", "free")},
        fallbacks={"scout": [model("loop", "missing")]},
    )
    assert refused.startswith("task look: no model: keyless/free: its apiKey in models.json is")
    assert "; loop/missing: no such model in" in refused


async def test_model_of_the_session_works_where_nobody_names_one() -> None:
    session = ModelChoice("acme", "m1", Thinking.HIGH)
    own = model("scripted", "script.yaml")
    spec = accepted(job(scout("own", model=own), scout("other")))
    filled = with_session_model(spec, DEFINITIONS, session)
    assert [task.model for task in filled.tasks] == [spec.tasks[0].model, session]
    assert replace(filled, tasks=spec.tasks) == spec
    assert with_session_model(spec, DEFINITIONS, None) == spec
    default = accepted(job(scout(), config={"models": {"default": own}}))
    assert with_session_model(default, DEFINITIONS, session) == default


async def test_a_job_that_names_no_model_is_told_where_to_name_one(folder: Path) -> None:
    assert await refusal_of(folder) == (
        "task look: no model: none is named: set `model` on the task, or `models.default` in the "
        "run's config"
    )


async def test_a_limit_in_dollars_needs_a_known_price(folder: Path) -> None:
    limits = {"costUsd": 1}
    async with chosen(folder, models={"default": model("loop", "priced")}, limits=limits) as found:
        assert found[LOOK].has_price
    async with chosen(folder, models={"default": model("loop", "free")}) as found:
        assert not found[LOOK].has_price
    refused = await refusal_of(folder, models={"default": model("loop", "free")}, limits=limits)
    assert refused == (
        "task look: limits.costUsd is set, but nobody knows the price of loop/free: give its "
        "`cost` in models.json, or leave limits.costUsd out"
    )


async def test_a_script_has_a_price(folder: Path) -> None:
    models = {"default": model("scripted", "script.yaml")}
    async with chosen(folder, models=models, limits={"costUsd": 1}) as found:
        assert found[LOOK].has_price


async def test_a_faulty_file_of_the_user_is_no_reason_to_fall_back(folder: Path) -> None:
    (folder / "models.json").write_text("{")
    scripted = [model("scripted", "script.yaml")]
    with pytest.raises(FaultyFileError):
        async with chosen(
            folder, models={"default": model("loop", "free")}, fallbacks={"scout": scripted}
        ):
            pass


async def test_a_run_of_scripts_needs_no_file_of_the_user(folder: Path) -> None:
    (folder / "models.json").write_text("{")
    async with chosen(folder, models={"default": model("scripted", "script.yaml")}) as found:
        assert found[LOOK].passed_over == ()


async def test_a_faulty_script_is_told(folder: Path) -> None:
    with pytest.raises(ScriptError):
        async with chosen(folder, models={"default": model("scripted", "gone.yaml")}):
            pass


async def test_a_backend_that_is_not_there_is_refused(folder: Path) -> None:
    loop = {"default": model("loop", "free")}
    with pytest.raises(NoBackendError) as caught:
        async with chosen(folder, models=loop, backend="process"):
            pass
    assert str(caught.value) == (
        "task look: backend process cannot be used: there is no pi on PATH: install it with npm "
        "install -g @earendil-works/pi-coding-agent; or use in-process"
    )
    with pytest.raises(NoBackendError) as caught:
        async with chosen(folder, models=loop, backend="herdr-pi"):
            pass
    assert str(caught.value) == (
        "task look: backend herdr-pi cannot be used: it is not in this release; or use in-process"
    )


async def test_a_run_records_the_fallback_that_it_uses(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    job = project.job([projects.scout("look")], {"look": [reports()]})
    models = job["config"]["models"]
    job["config"]["fallbacks"] = {"scout": [models["default"]]}
    models["scout"] = model("openai", "gpt-5")
    answer = await project.call("pinata_run", job)
    assert statuses(answer) == {"look": "succeeded"}
    (notice,) = [one for one in answer["notices"] if "passed over" in one]
    assert notice.startswith("task look: uses scripted/")
    assert "passed over: openai/gpt-5: no key: " in notice


async def test_a_run_without_a_reachable_model_leaves_nothing_behind(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    job = project.job([projects.scout("look")], {})
    job["config"]["models"] = {"default": model("openai", "gpt-5")}
    with pytest.raises(NoModelError, match=r"^task look: no model: openai/gpt-5: no key: "):
        await project.call("pinata_run", job)
    assert project.runs == []


async def test_a_cancelled_run_hangs_up_on_its_models(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    spoken = Spoken((TextPiece("so far"),), After.HANG)
    async with open_model_server(lambda _: spoken) as server:
        loop = {**LOOP, "baseUrl": server.anthropic_url}
        (tmp_path / "models.json").write_text(json.dumps({"providers": {"loop": loop}}))
        environment = {**project.env, "PI_CODING_AGENT_DIR": str(tmp_path)}
        job = project.job([projects.scout("look")], {})
        job["config"] = {"models": {"default": model("loop", "free")}, "mode": "observe"}
        recorder = _CancelsWhenSpokenTo()
        context = app.build_context(environment, project.repo.root, recorder)
        with trio.fail_after(20):
            answer = await app.call_tool(context, "pinata_run", job)
            await server.wait_disconnected()
    assert statuses(answer) == {"look": "cancelled"}
    assert len(server.requests) == 1


class _CancelsWhenSpokenTo(projects.Recorder):
    """Cancels the run as soon as its agent has begun to speak."""

    def happened(self, logged: Logged) -> None:
        if isinstance(logged.event, TextDelta) and self.cancel is not None:
            self.cancel("enough")


async def test_turns_for_a_task_that_the_run_does_not_have_are_told(folder: Path) -> None:
    hello = [{"text": "hello"}]
    turns = {"look": hello, "loook": hello, "loook@2": hello, "*": hello, "*@2": hello}
    assert await notices_of(folder, turns, scout()) == [
        "script script.json: no task is called loook"
    ]
    del turns["loook"], turns["loook@2"]
    assert await notices_of(folder, turns, scout()) == []
    many = {f"t{number}": hello for number in range(12)}
    (said,) = await notices_of(folder, many, scout())
    assert said.endswith(" t8, t9 and 2 more")


async def test_notices_about_a_script_come_before_its_agents_start(tmp_path: Path) -> None:
    project = Project.create(tmp_path)
    await project.run([projects.scout("look")], {"look": [reports()], "lok": [reports()]})
    assert len(project.recorder.notices) == 1
    assert project.recorder.notices[0].endswith("script.json: no task is called lok")
