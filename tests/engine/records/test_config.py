from typing import Any

import pytest

from engine.core.spec import Backend, Limits, Mode, ModelChoice, RunConfig, Thinking
from engine.records.config import ConfigLayer, decode_config, merge_config
from engine.records.request import RequestError

MODEL = {"provider": "scripted", "id": "a.json", "thinking": "low"}
CHOICE = ModelChoice("scripted", "a.json", Thinking.LOW)


def decode(data: object) -> RunConfig:
    return merge_config([decode_config(data, place="pinata.json")])


def refusal(data: object) -> str:
    with pytest.raises(RequestError) as caught:
        decode_config(data, place="pinata.json")
    return str(caught.value)


def test_nothing_said_means_the_defaults() -> None:
    assert decode({}) == RunConfig()
    assert merge_config([]) == RunConfig()


def test_every_setting_becomes_a_value() -> None:
    data = {
        "models": {"default": MODEL, "scout": MODEL},
        "fallbacks": {"scout": [MODEL, MODEL]},
        "limits": {
            "concurrency": 64,
            "taskMs": 1,
            "jobMs": 86_400_000,
            "repairs": 10,
            "maxTurns": 1_000,
            "maxToolCalls": 10_000,
            "costUsd": 0.5,
        },
        "mode": "observe",
        "backend": "process",
        "codemode": False,
        "setup": "npm ci",
        "includeUncommitted": False,
        "webExtension": "web.ts",
        "passEnv": ["DATABASE_URL", "A1", "A1"],
    }
    assert decode(data) == RunConfig(
        models={"default": CHOICE, "scout": CHOICE},
        fallbacks={"scout": (CHOICE, CHOICE)},
        limits=Limits(64, 1, 86_400_000, 10, 1_000, 10_000, 0.5),
        mode=Mode.OBSERVE,
        backend=Backend.PROCESS,
        codemode=False,
        setup="npm ci",
        include_uncommitted=False,
        web_extension="web.ts",
        pass_env=("DATABASE_URL", "A1"),
    )


def test_set_up_can_be_switched_off() -> None:
    assert decode({"setup": False}).setup is False


def test_layers_hold_together_and_the_later_one_wins() -> None:
    user: dict[str, Any] = {
        "limits": {"maxTurns": 5, "taskMs": 6},
        "models": {"scout": MODEL},
        "passEnv": ["A"],
    }
    project: dict[str, Any] = {
        "limits": {"taskMs": 7},
        "models": {"default": MODEL},
        "passEnv": ["B"],
        "fallbacks": {"scout": []},
    }
    run: dict[str, Any] = {"mode": "observe"}
    layers = [decode_config(one, field="config") for one in (user, project, run)]
    assert merge_config(layers) == RunConfig(
        limits=Limits(max_turns=5, task_ms=7),
        models={"scout": CHOICE, "default": CHOICE},
        fallbacks={"scout": ()},
        pass_env=("B",),
        mode=Mode.OBSERVE,
    )


def test_retired_keys_are_ignored_with_a_notice_each() -> None:
    data = {
        "pi": {},
        "herdr": 1,
        "session": None,
        "workspaceReuse": True,
        "codemode": False,
        "limits": {"startupMs": 5, "taskMs": 7},
    }
    layer = decode_config(data, place="pinata.json")
    assert layer == ConfigLayer(
        {"codemode": False, "limits": {"taskMs": 7}},
        tuple(
            f"pinata.json: {key} no longer means anything and is ignored; remove it"
            for key in ("pi", "herdr", "session", "workspaceReuse", "limits.startupMs")
        ),
    )
    assert data["pi"] == {}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "[] is not an object"),
        ({"colour": 1}, 'unknown field "colour"; the fields are models, fallbacks, limits, '),
        ({"limits": {"speed": 1}}, 'limits: unknown field "speed"; the fields are concurrency, '),
        ({"limits": 5}, "limits: 5 is not an object; it must be an object of budgets"),
        ({"limits": {"concurrency": 65}}, "limits.concurrency: 65 is too large; it must be an "),
        ({"limits": {"concurrency": 0}}, "limits.concurrency: 0 is too small; "),
        ({"limits": {"taskMs": 86_400_001}}, "limits.taskMs: 86400001 is too large; "),
        ({"limits": {"jobMs": 5.0}}, "limits.jobMs: 5.0 is not an integer; "),
        ({"limits": {"repairs": 11}}, "limits.repairs: 11 is too large; "),
        ({"limits": {"repairs": True}}, "limits.repairs: true is not an integer; "),
        ({"limits": {"maxTurns": "5"}}, 'limits.maxTurns: "5" is not an integer; '),
        ({"limits": {"maxToolCalls": None}}, "limits.maxToolCalls: null is not an integer; "),
        ({"limits": {"costUsd": 0}}, "limits.costUsd: 0 is too small; it must be a number above 0"),
        ({"limits": {"costUsd": -1}}, "limits.costUsd: -1 is too small; "),
        ({"limits": {"costUsd": "1"}}, 'limits.costUsd: "1" is not a number; '),
        ({"limits": {"costUsd": True}}, "limits.costUsd: true is not a number; "),
        ({"limits": {"costUsd": float("nan")}}, "limits.costUsd: NaN is not a finite number; "),
        ({"limits": {"costUsd": float("inf")}}, "limits.costUsd: Infinity is "),
        ({"limits": {"costUsd": 10_000.5}}, "limits.costUsd: 10000.5 is too large; "),
        ({"mode": "loud"}, 'mode: "loud" is not one of the known values; it must be lean or obs'),
        ({"backend": "docker"}, 'backend: "docker" is not one of the known values; '),
        ({"codemode": 1}, "codemode: 1 is not true or false"),
        ({"setup": True}, "setup: true is neither text nor false; it must be a shell script "),
        ({"setup": None}, "setup: null is neither text nor false; "),
        ({"setup": " "}, 'setup: " " is blank; '),
        ({"setup": "a\0"}, 'setup: "a\\u0000" holds a NUL character; '),
        ({"includeUncommitted": "no"}, 'includeUncommitted: "no" is not true or false'),
        ({"webExtension": ""}, 'webExtension: "" is empty; '),
        ({"passEnv": ["lower"]}, 'passEnv[0]: "lower" is refused: '),
        ({"passEnv": ["A", "NODE_OPTIONS"]}, 'passEnv[1]: "NODE_OPTIONS" is refused: '),
        ({"passEnv": ["PI_X"]}, 'passEnv[0]: "PI_X" is refused: '),
        ({"passEnv": ["A" * 201]}, f'passEnv[0]: "{"A" * 199}… has more than 200 characters; '),
        ({"passEnv": "A"}, 'passEnv: "A" is not an array; '),
        ({"models": {"Bad": MODEL}}, 'models: the name "Bad" does not fit; it must be 1 to 32 '),
        ({"models": {"scout": None}}, "models.scout: null is not an object; it must be an object "),
        ({"models": {"scout": MODEL | {"id": ""}}}, 'models.scout.id: "" is empty; it must be a '),
        ({"models": {"scout": {"id": "a"}}}, "models.scout.provider is missing; "),
        ({"models": {"a b": {"x": 1}}}, 'models["a b"]: unknown field "x"; '),
        ({"models": []}, "models: [] is not an object; "),
        ({"fallbacks": {"scout": MODEL}}, 'fallbacks.scout: {"provider": "scripted", "id": "a.js'),
        ({"fallbacks": {"scout": [5]}}, "fallbacks.scout[0]: 5 is not an object; "),
    ],
)
def test_what_does_not_fit_is_refused_naming_file_and_key(data: object, sentence: str) -> None:
    assert refusal(data).startswith(f"pinata.json: {sentence}")


def test_five_models_may_be_fallen_back_on_and_a_sixth_not() -> None:
    assert len(decode({"fallbacks": {"scout": [MODEL] * 5}}).fallbacks["scout"]) == 5
    assert refusal({"fallbacks": {"scout": [MODEL] * 6}}).endswith(
        " has more than 5 entries; it must be an array of up to 5 models"
    )
