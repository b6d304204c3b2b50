"""The page about budgets and the code have the same numbers."""

import re
from dataclasses import fields

from agents.budget import Budget, BudgetKind
from agents.models.port import Trouble
from agents.retry import (
    DISCONNECTED_TRIES,
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
    LONGEST_RETRY_AFTER_S,
    THROTTLED_TRIES,
    Patience,
)
from engine.core.limiter import Limiter
from engine.core.spec import Limits
from engine.records.config import LimitsRequest
from tests.support.reader import page, prose, rows, section

PAGE = page("budgets.md")


def number(text: str) -> float | None:
    return None if text == "none" else float(text.replace(",", ""))


def limits() -> dict[str, tuple[float | None, float | None]]:
    """Return default and maximum of every limit, as the page has them."""
    table = rows(PAGE.split("\n## ", 1)[0])
    return {row[0].strip("`"): (number(row[1]), number(row[2])) for row in table}


def numbers(text: str) -> list[float]:
    found = re.findall(r"\d[\d,]*", text)
    return [float(one.replace(",", "")) for one in found]


def test_every_limit_has_its_default_and_its_maximum() -> None:
    schema = LimitsRequest.model_json_schema()["properties"]
    names = {field.name: LimitsRequest.model_fields[field.name].alias for field in fields(Limits)}
    defaults = {str(alias): getattr(Limits(), name) for name, alias in names.items()}
    assert limits() == {name: (at, schema[name]["maximum"]) for name, at in defaults.items()}


def test_page_says_what_becomes_of_a_run_at_every_limit_that_it_can_pass() -> None:
    told = {row[0].strip("`") for row in rows(section(PAGE, "When one is reached"))}
    assert told == set(limits()) - {"repairs", "concurrency"}


def test_reason_on_the_page_is_the_one_that_people_read() -> None:
    budget = Budget(max_turns=Limits().max_turns, max_tool_calls=1)
    assert f"`{budget.describe(BudgetKind.TURNS)}`" in prose(PAGE)


def test_provider_gets_as_many_agents_as_the_page_says() -> None:
    text = section(PAGE, "How many work at once")
    (cap,) = numbers(prose(text).split("together have", 1)[1].split("agents", 1)[0])
    start, refusal, growth = [
        line for line in text.splitlines() if re.match(r"\| (to|after)", line)
    ]
    (first,), (least,), (answers, more) = numbers(start), numbers(refusal), numbers(growth)
    assert "half as many" in refusal
    limiter = Limiter()
    assert limiter.room(()).total == cap
    assert limiter.capacity("p") == first
    limiter.throttled("p")
    assert limiter.capacity("p") == first / 2
    for _ in range(9):
        limiter.throttled("p")
    assert limiter.capacity("p") == least
    for _ in range(int(answers)):
        assert limiter.capacity("p") == least
        limiter.answered("p")
    assert limiter.capacity("p") == least + more


def test_waits_and_tries_are_as_many_as_the_page_says() -> None:
    text = section(PAGE, "What is asked again")
    throttled, broken = [line for line in text.splitlines() if line.startswith("| because")]
    assert numbers(throttled) == [THROTTLED_TRIES, LONGEST_RETRY_AFTER_S]
    assert numbers(broken) == [DISCONNECTED_TRIES]
    drawn = prose(text).split("drawn by lot:", 1)[1].split("While", 1)[0]
    assert numbers(drawn) == [FIRST_BACKOFF_S, LONGEST_BACKOFF_S]
    patience = Patience()
    requests = 1
    while patience.allows(Trouble.DISCONNECT):
        requests += 1
    assert requests == DISCONNECTED_TRIES
