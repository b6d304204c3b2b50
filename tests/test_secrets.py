"""Keys of providers stay with the process that needs them, through a whole run."""

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
    ModelServer,
    from_script,
    open_model_server,
)
from tests.support.projects import Project, builder, reports, says, scout, shell, submits

# One for each place that a key can come from, and one that is a header.
STORED, LITERAL, NAMED, USUAL, HEADER = (f"sk-planted-{n}-5f1d7c" for n in range(5))
PLANTED = (STORED, LITERAL, NAMED, USUAL, HEADER)
LOOKS = [says("read", path="a.txt"), reports()]
SHOW_ALL = shell("env; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
SCRIPT = {
    "stored": LOOKS,
    "literal": LOOKS,
    "usual": LOOKS,
    "named": [
        SHOW_ALL,
        says("write", path="a.txt", content="two"),
        submits(changedFiles=["a.txt"]),
    ],
}


def write_user_files(folder: Path, server: ModelServer) -> dict[str, str]:
    """Write models and keys of a user and return what their environment adds."""

    def provider(url: str, api: str, **fields: object) -> dict[str, object]:
        return {"baseUrl": url, "api": api, "models": [{"id": "m"}], **fields}

    claude, other = "anthropic-messages", "openai-completions"
    providers = {
        "stored": provider(server.openai_url, other),
        "literal": provider(
            server.anthropic_url, claude, apiKey=LITERAL, headers={"X-Team": HEADER}
        ),
        "named": provider(server.openai_url, other, apiKey="$TEAM_KEY"),
        "anthropic": {"baseUrl": server.anthropic_url},
    }
    folder.mkdir()
    (folder / "models.json").write_text(json.dumps({"providers": providers}))
    (folder / "auth.json").write_text(json.dumps({"stored": {"type": "api_key", "key": STORED}}))
    return {
        "PI_CODING_AGENT_DIR": str(folder),
        "TEAM_KEY": NAMED,
        "ANTHROPIC_API_KEY": USUAL,
    }


def job() -> dict[str, object]:
    """Return a job whose tasks are named for the places of their models' keys."""

    def model(provider: str, id_: str = "m") -> dict[str, str]:
        return {"provider": provider, "id": id_, "thinking": "off"}

    tasks = [
        scout("stored", model=model("stored")),
        scout("literal", model=model("literal")),
        scout("usual", model=model("anthropic", "claude-sonnet-4-5")),
        builder("named", "a.txt", model=model("named")),
        scout("refused", model=model("stored")),
        scout("turned-away", model=model("literal")),
    ]
    return {"tasks": tasks, "approval": "the test says so"}


def everything_on_disk(*folders: Path) -> dict[str, bytes]:
    """Return the contents of all files below some folders, by their paths."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if not path.is_symlink()}


@pytest.mark.slow
@pytest.mark.unmeasured
async def test_no_key_leaves_the_process_but_for_its_provider(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    script = from_script(decode_script(json.dumps(SCRIPT).encode(), "script.json"))

    def answer(request: ModelRequest) -> Answer:
        shown = request.headers["authorization"]
        if "# Task refused" in request.first_text or "# Task turned-away" in request.first_text:
            return Refusal(401, f"wrong key: {shown}, {request.headers.get('x-team')}")
        return script(request)

    async with open_model_server(answer) as server:
        environment = write_user_files(tmp_path / "agent", server)

        async def pinata(*arguments: str) -> subprocess.CompletedProcess[str]:
            # From the start, so that the names that an agent sees of it are those that people see.
            return await trio.to_thread.run_sync(
                lambda: project.python("-m", "pinata", *arguments, env=environment)
            )

        done = await pinata("run", str(project.write_job(job())), "--json")
        logs = await pinata("logs", "--json")
        status = await pinata("status", "--json")
        doctor = await pinata("doctor")
        shown = {
            request.headers[name]
            for request in server.requests
            for name in ("authorization", "x-team")
            if name in request.headers
        }
    # All keys were in use, the agent's shell was heard, and the failures name no key.
    assert shown == {HEADER, *(f"Bearer {key}" for key in (STORED, LITERAL, NAMED, USUAL))}
    tasks = {task["id"]: task for task in json.loads(status.stdout)["tasks"]}
    assert {id_: task["status"] for id_, task in tasks.items()} == {
        "stored": "succeeded",
        "literal": "succeeded",
        "usual": "succeeded",
        "named": "succeeded",
        "refused": "failed",
        "turned-away": "failed",
    }, status.stdout
    assert "wrong key: Bearer [key], None" in tasks["refused"]["reason"]
    assert "wrong key: Bearer [key], [key]" in tasks["turned-away"]["reason"]
    repository = project.repo.root
    found = everything_on_disk(repository, tmp_path / "state")
    heard = b"".join(data for path, data in found.items() if "/transcripts/named" in path)
    assert b"PINATA_AGENT=1" in heard
    assert b"pinata run" in heard
    found["objects"] = project.repo.git("cat-file", "--batch-all-objects", "--batch")
    for command in (done, logs, status, doctor):
        found[" ".join(command.args)] = (command.stdout + command.stderr).encode()
    leaks = {path for path, data in found.items() if any(key.encode() in data for key in PLANTED)}
    assert leaks == set()
