"""The files in which Pi keeps models and keys."""

import json
import os
from pathlib import Path

import pytest

from agents.models.endpoint import Secret
from agents.models.pi_files import (
    AUTH_FILE,
    MAX_FILE_BYTES,
    MODELS_FILE,
    FaultyFileError,
    ModelEntry,
    key_files,
    read_auth_file,
    read_models_file,
)
from agents.models.price import Price

KEY = "sk-planted-0123456789"


def write(folder: Path, name: str, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text)
    return folder


def models_fault(folder: Path, content: object) -> str:
    """Return what is wrong with a `models.json`."""
    with pytest.raises(FaultyFileError) as caught:
        read_models_file(write(folder, MODELS_FILE, content))
    assert str(caught.value).startswith(f"{folder}/models.json: ")
    assert KEY not in str(caught.value)
    return caught.value.problem


def test_files_that_are_not_there_say_nothing(tmp_path: Path) -> None:
    assert read_models_file(tmp_path).providers == {}
    assert read_auth_file(tmp_path / "no folder").keys == {}
    (tmp_path / "file").touch()
    assert read_auth_file(tmp_path / "file").keys == {}


def test_a_whole_models_file_is_read(tmp_path: Path) -> None:
    cost = {"input": 1, "output": 2.5, "cacheRead": 0.1, "cacheWrite": 1.25}
    model = {
        "id": "m1",
        "name": "Model One",
        "api": "anthropic-messages",
        "baseUrl": "https://models.example/one",
        "reasoning": True,
        "input": ["text"],
        "contextWindow": 32_000,
        "maxTokens": 4_000,
        "cost": cost,
        "compat": {"supportsStore": False},
    }
    loop = {
        "baseUrl": "http://127.0.0.1:8000/v1",
        "api": "openai-completions",
        "apiKey": KEY,
        "headers": {"X-Team": "blue"},
        "models": [model, {"id": "m2"}],
        "compat": {},
        "authHeader": True,
    }
    found = read_models_file(write(tmp_path, MODELS_FILE, {"providers": {"loop": loop}, "x": 1}))
    entry = found.providers["loop"]
    assert (entry.base_url, entry.api) == ("http://127.0.0.1:8000/v1", "openai-completions")
    assert (entry.key, entry.headers) == (Secret(KEY), {"X-Team": Secret("blue")})
    assert entry.models == (
        ModelEntry(
            id="m1",
            api="anthropic-messages",
            base_url="https://models.example/one",
            reasoning=True,
            context_tokens=32_000,
            max_output_tokens=4_000,
            price=Price(1, 2.5, 0.1, 1.25),
        ),
        ModelEntry("m2"),
    )
    assert KEY not in repr(found)


def test_a_cache_without_a_price_costs_as_much_as_other_input(tmp_path: Path) -> None:
    models = [{"id": "m", "cost": {"input": 3, "output": 9}}]
    found = read_models_file(write(tmp_path, MODELS_FILE, {"providers": {"a": {"models": models}}}))
    assert found.providers["a"].models[0].price == Price(3, 9, 3, 3)


@pytest.mark.parametrize(
    ("provider", "problem"),
    [
        (KEY, "providers.loop must be an object"),
        ({"apiKey": [KEY]}, "providers.loop.apiKey must be text: a key, or $NAME for a variable"),
        ({"headers": {"Key": [KEY]}}, "providers.loop.headers.Key must be text"),
        ({"headers": KEY}, "providers.loop.headers must be an object of texts"),
        ({"baseUrl": f"http://u:{KEY}@h/"}, "providers.loop.baseUrl must be an http or https"),
        ({"baseUrl": f"https://h/?key={KEY}"}, "providers.loop.baseUrl must be an http or https"),
        ({"baseUrl": "file:///etc"}, "providers.loop.baseUrl must be an http or https address"),
        ({"baseUrl": "http://h:99999"}, "providers.loop.baseUrl must be an http or https address"),
        ({"baseUrl": "http://[h"}, "providers.loop.baseUrl must be an http or https address"),
        ({"models": {"id": "m"}}, "providers.loop.models must be an array of models"),
        ({"models": [{}]}, "providers.loop.models[0].id is missing; it must be the model's name"),
        (
            {"models": [{"id": "m"}, {"id": "n", "contextWindow": 0}]},
            "providers.loop.models[1].contextWindow must be a whole number of tokens",
        ),
        (
            {"models": [{"id": "m", "cost": {"input": -1, "output": 1}}]},
            "providers.loop.models[0].cost.input must be a number of dollars",
        ),
        (
            {"models": [{"id": "m", "cost": {"input": 1}}]},
            "providers.loop.models[0].cost.output is missing; it must be a number of dollars",
        ),
    ],
)
def test_a_fault_is_told_with_its_place_and_without_its_value(
    tmp_path: Path, provider: object, problem: str
) -> None:
    assert models_fault(tmp_path, {"providers": {"loop": provider}}).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1, column 1 is not JSON"),
        ('{"providers": {}', "line 1, column 17 is not JSON"),
        ("[]", "it must hold an object"),
        ("null", "it must hold an object"),
        ('{"providers": []}', "providers must be an object of providers by their names"),
        ('{"providers": {}, "providers": {}}', '"providers" stands twice in one object'),
    ],
)
def test_what_is_no_json_object_is_told(tmp_path: Path, text: str, problem: str) -> None:
    assert models_fault(tmp_path, text).startswith(problem)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / MODELS_FILE).mkdir()
    with pytest.raises(FaultyFileError, match=r"/models.json: is no regular file$"):
        read_models_file(tmp_path)
    (tmp_path / AUTH_FILE).write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(FaultyFileError, match=r"/auth.json: is longer than"):
        read_auth_file(tmp_path)
    (tmp_path / AUTH_FILE).unlink()
    os.mkfifo(tmp_path / AUTH_FILE)
    with pytest.raises(FaultyFileError, match=r"/auth.json: is no regular file$"):
        read_auth_file(tmp_path)


def test_keys_are_told_from_logins(tmp_path: Path) -> None:
    logins = {
        "loop": {"type": "api_key", "key": KEY},
        "anthropic": {"type": "oauth", "access": KEY, "refresh": KEY, "expires": 5},
        "other": {"type": "something new", "key": KEY},
    }
    found = read_auth_file(write(tmp_path, AUTH_FILE, logins))
    assert found.keys == {"loop": Secret(KEY), "anthropic": None, "other": None}
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("login", "problem"),
    [
        (KEY, "loop must be an object"),
        ({"key": KEY}, "loop.type is missing; it must be api_key or oauth"),
        ({"type": "api_key"}, "loop.key is missing; it must be text: a key"),
        ({"type": "api_key", "key": [KEY]}, "loop.key must be text: a key"),
    ],
)
def test_a_faulty_login_is_told_without_its_value(
    tmp_path: Path, login: object, problem: str
) -> None:
    with pytest.raises(FaultyFileError) as caught:
        read_auth_file(write(tmp_path, AUTH_FILE, {"loop": login}))
    assert caught.value.problem.startswith(problem)
    assert KEY not in str(caught.value)


def test_files_that_may_hold_keys_lie_in_the_agent_directory_if_there_is_one(
    tmp_path: Path,
) -> None:
    assert key_files(tmp_path) == (tmp_path / "auth.json", tmp_path / "models.json")
    assert key_files(None) == ()
