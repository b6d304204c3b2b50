"""Keys of the user stay out of everything that an agent in a Pi of its own leaves behind."""

import json
import subprocess
from pathlib import Path

import pytest
import trio

from agents.models.script import decode_script
from tests.support.model_dialects import Refusal
from tests.support.model_server import (
    Answer,
    ModelRequest,
    from_script,
    open_model_server,
)
from tests.support.projects import Project, builder, says, scout, shell, submits
from tests.support.real_pi import with_pi
from tests.test_secrets import everything_on_disk

LITERAL, STORED, NAMED, HEADER = (f"sk-planted-{n}-9a3e1c" for n in range(4))
PLANTED = (LITERAL, STORED, NAMED, HEADER)
# What it sees itself, and what the Pi was started with that it works in.
SHOW_ALL = shell("env; cat /proc/$PPID/environ | tr '\\0' '\\n'")
FIXES = [
    SHOW_ALL,
    says("read", path="~/.pi/agent/models.json"),
    says("write", path="a.txt", content="two\n"),
    submits(changedFiles=["a.txt"]),
]
SCRIPT = {"literal": FIXES, "stored": [says("submit_result", status="failed")]}


@pytest.mark.slow
@pytest.mark.unmeasured
async def test_no_key_is_in_what_a_pi_and_its_shell_leave_behind(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    choose = from_script(decode_script(json.dumps(SCRIPT).encode(), "script.json"))
    shown: set[str] = set()

    def answer(request: ModelRequest) -> Answer:
        shown.update(request.headers.get(name, "") for name in ("authorization", "x-team"))
        if "# Task refused" in request.first_text:
            return Refusal(401, f"wrong key: {request.headers['authorization']}")
        return choose(request)

    async with open_model_server(answer) as server:
        agent_dir = Path(project.env["HOME"]) / ".pi/agent"
        provider = {"baseUrl": server.openai_url, "api": "openai-completions"}
        models = {"models": [{"id": "m"}]}
        literal = {**provider, **models, "apiKey": LITERAL, "headers": {"X-Team": HEADER}}
        providers = {"literal": literal, "stored": {**provider, **models}}
        agent_dir.mkdir(parents=True)
        (agent_dir / "models.json").write_text(json.dumps({"providers": providers}))
        auth = {"stored": {"type": "api_key", "key": STORED}}
        (agent_dir / "auth.json").write_text(json.dumps(auth))
        environment = {**with_pi(project.env, agent_dir), "OPENAI_API_KEY": NAMED, "TEAM": NAMED}

        async def pinata(*arguments: str) -> subprocess.CompletedProcess[str]:
            return await trio.to_thread.run_sync(
                lambda: project.python("-m", "pinata", *arguments, env=environment)
            )

        path = str(project.write_job(job("literal", "stored", refused="literal")))
        done = await pinata("run", path, "--json")
        refused = await pinata("run", str(project.write_job(job("openai"))), "--json")
        status = await pinata("status", "--json")
        logs = await pinata("logs", "--json")
    assert {f"Bearer {LITERAL}", f"Bearer {STORED}", HEADER} <= shown
    found = everything_on_disk(project.repo.root, tmp_path / "state")
    heard = b"".join(data for path, data in found.items() if "/transcripts/literal" in path)
    # Its shell was heard, and what Pi itself was started with.
    assert b"PINATA_AGENT=1" in heard
    assert b"PINATA_CHILD=" in heard
    assert b"which no agent reads" in heard
    assert "wrong key: Bearer [key]" in status.stdout
    assert "OPENAI_API_KEY), where the agent's shell would see it" in refused.stderr
    found["objects"] = project.repo.git("cat-file", "--batch-all-objects", "--batch")
    for command in (done, refused, status, logs):
        found[" ".join(command.args)] = (command.stdout + command.stderr).encode()
    leaks = {path for path, data in found.items() if any(key.encode() in data for key in PLANTED)}
    assert leaks == set()


def job(*providers: str, refused: str | None = None) -> dict[str, object]:
    """Return a job whose tasks are named for the providers of their models, but for one."""
    tasks = [
        builder(name, "a.txt", model=_model(name)) if name == "literal" else _look(name)
        for name in providers
    ]
    if refused is not None:
        tasks.append(scout("refused", model=_model(refused)))
    return {"tasks": tasks, "approval": "the test says so", "config": {"backend": "process"}}


def _look(provider: str) -> dict[str, object]:
    return scout(provider, model=_model(provider))


def _model(provider: str) -> dict[str, str]:
    return {"provider": provider, "id": "m", "thinking": "off"}
