"""One story in which every tool is called and refused, with what each call was answered.

The calls that pages show are made as they are shown. What they call `1f0c` is the run that mends a
greeting, `b27a` one that was rejected, and `77e1` one that goes on in the background.
"""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.errors import PinataError
from pinata.tools.registry import Answer
from tests.support.garbage import collect
from tests.support.github import NUMBER, Github
from tests.support.movers import forget_renameat2
from tests.support.programs import Beacon, open_beacon
from tests.support.projects import (
    FAIL,
    Project,
    Turn,
    approves,
    builder,
    reports,
    requests_changes,
    reviewer,
    says,
    scout,
    shell,
    submits,
)
from tests.support.reference import Page

GREETING = "greeting.txt"
ANY = "every tool"
_SOURCE = {"url": "https://a.example", "title": "t", "supports": "s", "applicability": "a"}
_FINDING = {"severity": "medium", "message": "no exclamation mark", "evidence": "greeting.txt:1"}
_SURFER = "---\ndescription: Surfs.\nkind: reader\ntools: [web_search]\n---\n# Surfer\n"
_OVERLAY = "---\nthinking: high\n---\n"
_SCHOLAR = (
    "---\ndescription: Reads.\nkind: reader\nmodel: openai/gpt-5\nexcludeTools: ['*']\n---\n"
    "# Scholar\n"
)
_SUMMARY = "answers.md#run-summary"
_RESULT = "answers.md#saved-result"
_ONE_AGENT = "tools/pinata_agents.md#one-definition"
_CONVERSATION = "tools/pinata_status.md#a-conversation"


def _edits(old: str, new: str) -> Turn:
    return says("edit", path=GREETING, edits=[{"oldText": old, "newText": new}])


def _submits(summary: str) -> Turn:
    return submits(summary=summary, changedFiles=[GREETING])


def _script(beacon: Beacon) -> dict[str, list[Turn]]:
    return {
        "fix": [_edits("Helo", "Hello"), _submits("Spelled the greeting right.")],
        "review-fix": [approves(summary="Right, and nothing else changes.")],
        "greet": [_edits("Helo", "Hello"), _submits("Spelled it right.")],
        "greet@2": [_edits("world", "world!"), _submits("Ends with an exclamation mark.")],
        "review-greet": [requests_changes(findings=[_FINDING])],
        "review-greet@2": [approves()],
        "review-greet@3": [approves()],
        "slow": [
            shell(f"echo at work > {beacon.path}; read line < {beacon.path.with_name('go')}"),
            shell(f"echo still at work > {beacon.path}"),
            {"text": "Let me see.", "hang": True},
        ],
        "look": [reports("b" * 9_000, sources=[_SOURCE])],
        "stuck": [shell("exit 1"), submits("blocked", blockers=["no key"])],
        "judge": [approves()],
    }


@dataclass(frozen=True, slots=True)
class Told:
    """A call and its answer.

    Attributes:
        shape: the table that describes the answer.
    """

    tool: str
    shape: str
    answer: Answer


@dataclass(slots=True)
class Story:
    """What was answered and what was refused.

    Attributes:
        examples: the answers to the calls that pages show, by tool.
        runs: how pages call a run, to its id.
    """

    project: Project
    told: list[Told] = field(default_factory=list)
    refused: dict[str, list[PinataError]] = field(default_factory=dict)
    examples: dict[str, Answer] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)

    async def call(self, tool: str, shape: str, **arguments: object) -> Answer:
        """Make a call that is answered."""
        answer = await self.project.call(tool, arguments)
        self.told.append(Told(tool, shape, answer))
        return answer

    async def show(self, tool: str, shape: str | None = None) -> Answer:
        """Make the call that the tool's page shows."""
        page = f"tools/{tool}.md"
        call = Page(page).json("call")
        if "run" in call:
            call["run"] = self.runs[call["run"]][:6]
        answer = await self.call(tool, shape or f"{page}#answer", **call)
        self.examples[tool] = answer
        return answer

    async def refuse(self, tool: str, *, of: str | None = None, **arguments: object) -> None:
        """Make a call that is refused, for a reason that the page of the tool, or `of`, tells."""
        try:
            await self.project.call(tool, arguments)
        except PinataError as error:
            self.refused.setdefault(of or tool, []).append(error)
        else:
            raise AssertionError(f"{tool} was not refused: {arguments}")


def tell_story(folder: Path) -> Story:
    """Play it in `folder`."""
    project = Project.create(folder, {GREETING: "Helo, world\n", "README.md": "# Greeter\n"})
    agent_dir = folder / "agent"
    (agent_dir / "agents").mkdir(parents=True)
    (agent_dir / "agents" / "surfer.md").write_text(_SURFER)
    (agent_dir / "agents" / "scholar.md").write_text(_SCHOLAR)
    (agent_dir / "agents" / "reviewer.md").write_text(_OVERLAY)
    project.repo.env["PI_CODING_AGENT_DIR"] = str(agent_dir)
    story = Story(project)
    os.mkfifo(folder / "go")
    with open_beacon(folder) as beacon:
        script = folder / "script.json"
        script.write_text(json.dumps(_script(beacon)))
        model = {"provider": "scripted", "id": str(script), "thinking": "off"}
        (agent_dir / "pinata.json").write_text(json.dumps({"models": {"default": model}}))
        trio.run(_tell, story, beacon)
    return story


async def _tell(story: Story, beacon: Beacon) -> None:
    await _begin(story)
    await _bring_in(story)
    await _mend(story)
    await _go_on_in_the_background(story, beacon)
    await _tell_the_rest(story)
    await _break(story)
    await _tidy_up(story)


async def _begin(story: Story) -> None:
    await story.refuse("pinata_agents", name="nobody")
    await story.call("pinata_agents", "tools/pinata_agents.md#answer")
    for name in ("reviewer", "generalist"):
        await story.call("pinata_agents", _ONE_AGENT, name=name)
    await story.show("pinata_agents", _ONE_AGENT)
    nothing = {"taskCount": 0, "counts": {}, "tasks": [], "message": "there are no runs yet"}
    assert await story.project.call("pinata_status", {}) == nothing
    task = scout("look")
    await story.refuse("pinata_run", tasks=[])
    await story.refuse("pinata_run", tasks=[builder("fix", GREETING)])
    await story.refuse("pinata_run", tasks=[task | {"agent": "nobody"}])
    model = {"provider": "anthropic", "id": "claude", "thinking": "off"}
    await story.refuse("pinata_run", tasks=[task | {"model": model}])
    await story.refuse("pinata_run", tasks=[task | {"backend": "herdr-pi"}])
    await story.refuse("pinata_run", tasks=[task], survive=True)
    await story.refuse("pinata_run", tasks=[task], background=True)
    story.runs["1f0c"] = (await story.show("pinata_run", _SUMMARY))["run"]


async def _bring_in(story: Story) -> None:
    run, repo = story.runs["1f0c"], story.project.repo
    await story.refuse("pinata_status", run=run, detail="result")
    await story.refuse("pinata_status", run=run, task="nobody")
    await story.refuse("pinata_status", run=run, task="fix", offset=1)
    await story.show("pinata_status", _RESULT)
    await story.call("pinata_status", _SUMMARY, run=run, limit=1)
    await story.call("pinata_status", _CONVERSATION, run=run, task="fix", detail="transcript")
    await story.show("pinata_changes")
    await story.refuse("pinata_rollback", run=run, confirm=True)
    repo.write(GREETING, "mine\n")
    await story.refuse("pinata_integrate", run=run)
    repo.write(GREETING, "Helo, world\n")
    await story.show("pinata_integrate")
    await story.show("pinata_verify")
    await story.refuse("pinata_verify", run=run, checks=[])
    await story.refuse("pinata_verify", run=run, noChecksReason="none needed")
    without = {"checks": [], "noChecksReason": "none needed"}
    await story.call("pinata_verify", "tools/pinata_verify.md#answer", run=run, **without)
    await story.call("pinata_status", _SUMMARY, run=run)
    await story.refuse("pinata_rollback", run=run)
    repo.write(GREETING, "mine\n")
    await story.refuse("pinata_rollback", run=run, confirm=True)
    repo.write(GREETING, "Hello, world\n")
    repo.git("add", GREETING)
    await story.refuse("pinata_rollback", run=run, confirm=True)
    await story.refuse("pinata_integrate", run=run)
    repo.git("reset", "--quiet")
    await story.show("pinata_rollback")
    await story.refuse("pinata_rollback", run=run, confirm=True)


async def _mend(story: Story) -> None:
    tasks = [builder("greet", GREETING), reviewer("review-greet", "greet")]
    limits = {"limits": {"repairs": 1}}
    # Somebody works on meanwhile.
    story.project.repo.write("NOTES.md", "mine\n")
    rejected = await story.call(
        "pinata_run", _SUMMARY, approval="Robin", tasks=tasks, config=limits
    )
    story.runs["b27a"] = run = rejected["run"]
    await story.refuse("pinata_changes", run=run)
    await story.refuse("pinata_integrate", run=run)
    await story.refuse("pinata_repair", run=run, task="nobody", feedback="Mend it.")
    await story.refuse("pinata_repair", run=run, task="greet", feedback=" ")
    await story.refuse("pinata_repair", run=run, task="review-greet", feedback="Mend it.")
    await story.show("pinata_repair", _SUMMARY)
    await story.refuse("pinata_repair", run=run, task="greet", feedback="Mend it.")
    await story.call("pinata_changes", "tools/pinata_changes.md#answer", run=run)
    with pytest.MonkeyPatch.context() as patch:
        forget_renameat2(patch)
        await story.call("pinata_integrate", "tools/pinata_integrate.md#answer", run=run)
    await story.call("pinata_rollback", "tools/pinata_rollback.md#answer", run=run, confirm=True)
    await story.call("pinata_status", _SUMMARY, run=run)


async def _go_on_in_the_background(story: Story, beacon: Beacon) -> None:
    tasks = [builder("slow", GREETING), reviewer("judge", "slow"), reviewer("again", "slow")]
    async with story.project.owning():
        begun = await story.call(
            "pinata_run",
            "tools/pinata_run.md#answer",
            approval="Robin",
            tasks=tasks,
            background=True,
        )
        story.runs["77e1"] = run = begun["run"]
        outliving: dict[str, Any] = {"background": True, "survive": True}
        await story.refuse("pinata_run", tasks=[scout("look")], **outliving)
        assert await beacon.line() == "at work"
        await story.show("pinata_steer")
        later = {"run": run, "task": "slow", "message": "Say why.", "as": "followUp"}
        await story.call("pinata_steer", "tools/pinata_steer.md#answer", **later)
        for task in ("judge", "nobody"):
            await story.refuse("pinata_steer", run=run, task=task, message="Mind the comma.")
        await story.refuse("pinata_steer", run=run, task="slow", message="x" * (65 << 10))
        await story.refuse("pinata_cancel", run=run, task="nobody")
        await story.refuse("pinata_integrate", of=ANY, run=run)
        await story.call("pinata_status", _SUMMARY, run=run)
        await story.call("pinata_cancel", "tools/pinata_cancel.md#answer", run=run, task="again")
        await trio.to_thread.run_sync(beacon.path.with_name("go").write_text, "\n")
        assert await beacon.line() == "still at work"
        await story.show("pinata_cancel")
    await story.call("pinata_status", _RESULT, run=run, task="slow", detail="result")
    await story.call("pinata_status", _CONVERSATION, run=run, task="judge", detail="transcript")
    await story.call("pinata_status", _SUMMARY, run=run)
    await story.refuse("pinata_cancel", run=run)
    await story.refuse("pinata_repair", run=run, task="slow", feedback="Mend it.")


async def _tell_the_rest(story: Story) -> None:
    """Have answers with what the others had no cause to say."""
    repo = story.project.repo
    repo.write("README.md", "# Greeter, edited\n")
    judge = {"id": "judge", "agent": "reviewer", "task": "Is it right?"}
    wrong = [{"id": "wrong", "argv": FAIL}, {"id": "never", "argv": FAIL}]
    tasks = [
        scout("look"),
        builder("stuck", "stuck.txt"),
        builder("fix", GREETING, checks=wrong),
        judge | {"reviewBase": "HEAD"},
    ]
    observed = {"mode": "observe"}
    answer = await story.call(
        "pinata_run", _SUMMARY, approval="Robin", tasks=tasks, config=observed
    )
    run = answer["run"]
    for task in ("look", "stuck", "fix", "judge"):
        await story.call("pinata_status", _RESULT, run=run, task=task, detail="result")
    await story.refuse("pinata_changes", run=run)
    await story.call("pinata_verify", "tools/pinata_verify.md#answer", run=run)
    unreviewed = [builder("greet", GREETING)]
    alone = await story.call("pinata_run", _SUMMARY, approval="Robin", tasks=unreviewed)
    await story.refuse("pinata_changes", run=alone["run"])
    nothing = await story.call("pinata_run", _SUMMARY, tasks=[scout("look")])
    await story.refuse("pinata_changes", run=nothing["run"])
    hub = await trio.to_thread.run_sync(Github.open, repo, story.project.folder)
    assert hub.head
    await story.call("pinata_run", _SUMMARY, tasks=[judge | {"reviewPr": NUMBER}])


async def _break(story: Story) -> None:
    """Make the calls that any tool refuses."""
    project, run = story.project, story.runs["1f0c"]
    runs = project.repo.root / ".git" / "pinata"
    await story.refuse("pinata_status", of=ANY, colour="red")
    await story.refuse("pinata_changes", of=ANY)
    await story.refuse("pinata_status", of=ANY, run="zz")
    shutil.copytree(runs / run, runs / f"{run[:8]}{'0' * 8}")
    await story.refuse("pinata_status", of=ANY, run=run[:8])
    await story.refuse("pinata_run", of=ANY, tasks=[scout("look")], cwd=str(project.folder))
    project.repo.env["PINATA_AGENT"] = "1"
    await story.refuse("pinata_changes", of=ANY, run=run)
    del project.repo.env["PINATA_AGENT"]
    orphan = story.runs["77e1"]
    _forget_all_ends(runs / orphan / "events.jsonl")
    await story.refuse("pinata_steer", run=orphan, task="slow", message="Mind the comma.")
    await story.refuse("pinata_cancel", run=orphan)
    (runs / run / "run.json").write_text("{}")
    await story.refuse("pinata_status", of=ANY, run=run)


async def _tidy_up(story: Story) -> None:
    """Collect garbage, the run that is damaged by now being left."""
    for confirm in (False, True):
        answer = await collect(story.project, confirm=confirm)
        story.told.append(Told("gc", "commands/gc.md#output", answer))


def _forget_all_ends(log: Path) -> None:
    """Let it look as if the process of a run had died before the first of its tasks ended."""
    lines = log.read_text().splitlines(keepends=True)
    settled = next(at for at, line in enumerate(lines) if "agent_settled" in line)
    log.write_text("".join(lines[:settled]))
