"""Whole conversations with models behind servers, from the brief to the result."""

from pathlib import Path

import pytest

from agents.loop import NoResult, ProviderFailed, Submitted
from agents.models.port import Trouble
from engine.core.spec import Kind
from tests.support.agents import open_studio, script_of
from tests.support.model_dialects import Refusal
from tests.support.model_server import from_script, one_after_another, open_model_server
from tests.support.models import KEY, OPENERS, Setting

SCOUT = """
    any:
      - thinking: Where is it?
        text: I read it.
        calls: [{tool: read, arguments: {path: README.md}}]
        usage: {input: 100, output: 20}
      - error: rate_limit
      - calls:
          - tool: submit_result
            arguments:
              status: succeeded
              summary: It is a till.
              brief: README.md says so.
              changedFiles: []
              checks: []
              findings: []
              blockers: []
        usage: {input: 200, output: 30}
"""


@pytest.mark.slow
@pytest.mark.parametrize("dialect", list(OPENERS))
async def test_a_scout_reads_a_file_and_hands_in(dialect: str, tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.READER)
    (studio.root / "README.md").write_text("the till of a shop\n")
    async with (
        open_model_server(from_script(script_of(SCOUT))) as server,
        OPENERS[dialect](server, Setting()) as model,
    ):
        outcome = await studio.run(model, "What is this?")
    assert isinstance(outcome, Submitted)
    assert outcome.submission.summary == "It is a till."
    usage = outcome.spent.usage
    assert (usage.input_tokens, usage.output_tokens) == (300, 50)
    assert usage.cost_usd == pytest.approx(0.0004)
    # The refused request was made again, with what the tool said in it.
    assert len(server.requests) == 3
    assert "the till of a shop" in str(server.requests[-1].body["messages"])
    assert KEY not in studio.transcript_path.read_text()


@pytest.mark.parametrize("dialect", list(OPENERS))
async def test_a_wrong_key_ends_an_agent_with_the_providers_words(
    dialect: str, tmp_path: Path
) -> None:
    studio = open_studio(tmp_path)
    refused = Refusal(401, f"no such key: {KEY}")
    async with (
        open_model_server(one_after_another(refused)) as server,
        OPENERS[dialect](server, Setting()) as model,
    ):
        outcome = await studio.run(model)
    assert isinstance(outcome, ProviderFailed)
    assert outcome.trouble is Trouble.AUTHENTICATION
    assert "no such key: [key]" in outcome.message
    assert len(server.requests) == 1
    assert KEY not in studio.transcript_path.read_text()


@pytest.mark.parametrize("dialect", list(OPENERS))
async def test_a_conversation_goes_on_after_an_empty_answer(dialect: str, tmp_path: Path) -> None:
    studio = open_studio(tmp_path)
    async with (
        open_model_server(one_after_another()) as server,
        OPENERS[dialect](server, Setting()) as model,
    ):
        assert isinstance(await studio.run(model), NoResult)
    assert len(server.requests) == 2
