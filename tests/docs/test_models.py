"""What docs/models.md says of models and keys is so."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents.herdsman.errors import HerdError
from agents.models.anthropic_request import ANSWER_TOKENS, BUDGET_TOKENS, EFFORTS
from agents.models.catalog import KNOWN, Catalog, ModelInfo
from agents.models.keys import find_key
from agents.models.logins import login_fault
from agents.models.pi_files import MODELS_FILE, AuthFile, ModelsFile, read_models_file
from agents.models.wire import IDLE_TIMEOUT_S
from agents.roster import load_roster
from engine.config import decode_config_file
from engine.core.ids import TaskId
from engine.core.spec import ModelChoice, Thinking
from engine.records.config import merge_config
from pinata import app
from pinata.work.herd_ways import open_ways
from pinata.work.models import NoModelError, NoPriceError
from pinata.work.observer import Silence
from tests.support.herd_led import launch_of
from tests.support.jobs import accepted
from tests.support.reader import blocks, page, prose, rows, section

PAGE = page("models.md")
SETTINGS, JOB, MODELS = (json.loads(block.text) for block in blocks(PAGE, "json"))
NO_MODEL, NOT_LENT, NOT_SHOWN, NOT_STARTED, NO_PRICE = (
    block.text.strip() for block in blocks(PAGE, "text")
)


def cells(heading: str) -> list[list[str]]:
    """Return the cells of the tables below a heading, without backticks."""
    return [[cell.strip("`") for cell in row] for row in rows(section(PAGE, heading))]


@pytest.fixture
def models(tmp_path: Path) -> ModelsFile:
    """The file on the page."""
    (tmp_path / MODELS_FILE).write_text(json.dumps(MODELS))
    return read_models_file(tmp_path)


def test_the_job_is_accepted_and_its_models_are_known(models: ModelsFile) -> None:
    spec = accepted(JOB)
    chosen = [*spec.config.models.values(), *spec.config.fallbacks["scout"]]
    chosen += [task.model for task in spec.tasks if task.model is not None]
    assert load_roster().definitions.keys() >= {task.agent for task in spec.tasks}
    for choice in chosen:
        assert isinstance(Catalog(models).find(choice.provider, choice.id), ModelInfo)


def test_the_shortest_way_leads_to_a_model(models: ModelsFile) -> None:
    config = merge_config([decode_config_file(json.dumps(SETTINGS).encode(), "pinata.json")])
    choice = config.models["default"]
    assert isinstance(Catalog(models).find(choice.provider, choice.id), ModelInfo)
    (shown,) = blocks(section(PAGE, "The shortest way"), "console")
    assert f"export {KNOWN[choice.provider].variable}=" in shown.text


def test_the_models_file_says_what_the_page_says(models: ModelsFile) -> None:
    local = Catalog(models).find("local", "qwen3-coder")
    rerouted = Catalog(models).find("openai", "gpt-5")
    assert isinstance(local, ModelInfo)
    assert isinstance(rerouted, ModelInfo)
    assert local.price is not None
    assert (local.context_tokens, local.max_output_tokens) == (131_072, 16_384)
    assert rerouted.base_url == "https://proxy.example/openai/v1"
    assert not isinstance(find_key("local", Catalog(models), {}), str)


def test_a_key_of_the_environment_is_told_to_be_of_no_use_to_pi() -> None:
    catalog = Catalog(auth=AuthFile("/home/robin/.pi/agent/auth.json"))
    fault = login_fault("openai", catalog, shown={}, environment={"OPENAI_API_KEY": "planted"})
    assert str(NoModelError(TaskId("fix"), [f"openai/gpt-5: {fault}"])) == NOT_SHOWN


def test_every_known_provider_is_listed() -> None:
    listed = [row for row in cells("Providers") if len(row) == 3]
    assert listed == [[name, one.variable, one.base_url] for name, one in KNOWN.items()]


def test_ids_are_checked_for_providers_of_ones_own_alone(models: ModelsFile) -> None:
    for name in KNOWN:
        assert isinstance(Catalog(models).find(name, "misspelt"), ModelInfo)
    assert "no such model" in str(Catalog(models).find("local", "misspelt"))


def test_every_key_of_the_file_is_described() -> None:
    def keys(value: Any) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(keys, value))
        if isinstance(value, dict):
            return set(value).union(*map(keys, value.values()))
        return set()

    described = {row[0] for row in cells("Providers") if len(row) == 2}
    names = {"providers", "local", "openai", "X-Team"}
    parts_of_cost = set(MODELS["providers"]["local"]["models"][0]["cost"])
    assert described == keys(MODELS) - names - parts_of_cost


def test_every_level_of_thinking_is_listed_with_what_is_asked_for() -> None:
    table = {row[0]: row[1:] for row in cells("Thinking")}
    assert list(table) == [level.value for level in Thinking]
    assert table.pop("off") == ["not asked for"] * 3
    for name, (tokens, effort, other) in table.items():
        level = Thinking(name)
        assert tokens == f"{BUDGET_TOKENS[level]:,}"
        assert (effort, other) == (EFFORTS[level], name)
    assert f"{ANSWER_TOKENS:,} of the longest answer" in prose(PAGE)


def test_the_shown_refusals_are_what_one_gets() -> None:
    folder = "/home/robin/.pi/agent"
    catalog = Catalog(ModelsFile(f"{folder}/models.json"), AuthFile(f"{folder}/auth.json"))
    spec = accepted(JOB)
    local, claude = spec.config.models["scout"], spec.config.fallbacks["scout"][0]
    no_provider = catalog.find(local.provider, local.id)
    no_key = find_key(claude.provider, catalog, {})
    assert (
        f"task look: no model: {local.provider}/{local.id}: {no_provider}; "
        f"{claude.provider}/{claude.id}: {no_key}"
    ) == NO_MODEL
    stranger = catalog.find("openai-codex", "gpt-5")
    assert (
        "task look: no model: openai-codex/gpt-5: "
        f"by the session, Pi has no login for openai-codex; {stranger}"
    ) == NOT_LENT
    assert str(NoPriceError(TaskId("look"), "local/qwen3-coder")) == NO_PRICE


async def test_agent_that_no_backend_can_run_is_refused_as_shown(tmp_path: Path) -> None:
    context = app.build_context(
        {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, tmp_path, Silence()
    )
    launch = launch_of("reader", model=ModelChoice("openai", "gpt-5", Thinking.OFF))
    async with open_ways(context) as ways:
        with pytest.raises(HerdError) as caught:
            await ways(launch)
    assert str(caught.value).replace(str(tmp_path), "/home/robin") == NOT_STARTED


def test_silence_is_borne_for_as_long_as_the_page_says() -> None:
    assert IDLE_TIMEOUT_S == 5 * 60
