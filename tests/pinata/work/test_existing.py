"""Reviews of changes that no builder of the run made, through the public tool."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import ConflictError, ExternalError, PinataError, UsageError
from engine.core.events import AttemptSettled, CheckoutChanged
from engine.records.event import Logged
from pinata.work import existing, verdict
from tests.support.github import NUMBER, PAGE, Github
from tests.support.projects import (
    Project,
    Recorder,
    Task,
    Turn,
    approves,
    builder,
    read,
    reports,
    requests_changes,
    reviewer,
    says,
    scout,
    shell,
    statuses,
    submits,
    task_of,
)
from tests.support.repos import RepoBuilder


@dataclass(slots=True)
class Mover(Recorder):
    """An observer that works in the checkout as soon as the first task has settled."""

    repo: RepoBuilder | None = None
    does: str = ""

    def happened(self, logged: Logged) -> None:
        self.events.append(logged.event)
        if isinstance(logged.event, AttemptSettled) and self.repo is not None:
            repo, self.repo = self.repo, None
            match self.does:
                case "edit":
                    repo.write("a.txt", "three\n")
                case "commit":
                    repo.commit("moved on")
                case "stage":
                    repo.git("add", "a.txt")


ECHO_TASK = submits(review={"verdict": "approve", "taskId": "main"})
ECHO_PRINT = submits(review={"verdict": "approve", "fingerprint": "${fingerprint}"})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})


@pytest.fixture
def hub(project: Project) -> Github:
    return Github.open(project.repo, project.folder)


def of_base(revision: str, id_: str = "judge", **fields: object) -> Task:
    return {"id": id_, "agent": "reviewer", "task": "judge", "reviewBase": revision} | fields


def of_pull(number: int = NUMBER, id_: str = "judge", **fields: object) -> Task:
    return {"id": id_, "agent": "reviewer", "task": "judge", "reviewPr": number} | fields


async def judged(project: Project, task: Task, *turns: Turn, **fields: Any) -> dict[str, Any]:
    """Run one reviewer, which approves unless it is told otherwise; return its summary."""
    answer = await project.run([task], {"*": list(turns) or [approves()]}, **fields)
    return task_of(answer, "judge") | {"run": answer["run"]}


async def brief_of(project: Project, run: str, task: str = "judge") -> str:
    """Return the first message of a task's agent."""
    lines = read((await project.result(run, task))["transcript"]).splitlines()
    entries = [json.loads(line) for line in lines]
    said = next(e for e in entries if e.get("message", {}).get("role") == "user")
    return json.dumps(said["message"]["content"], ensure_ascii=False)


def forget_all_but_the_first_result(run: Path) -> None:
    """Leave of a run what there would be if its process had died after its first task."""
    log = run / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    settled = next(n for n, line in enumerate(lines) if "agent_settled" in line)
    log.write_text("".join(lines[: settled + 1]))
    for left in [*run.glob("results/judge*"), *run.glob("transcripts/judge*")]:
        left.unlink()


def diff_of(project: Project, run: str, name: str = "judge.1.diff") -> str:
    return read(str(project.repo.root / ".git/pinata" / run / "reviews" / name))


@dataclass(frozen=True, slots=True)
class Untouched:
    """What a refused call must leave as it was."""

    project: Project
    facts: dict[str, bytes]
    refs: dict[str, str]

    @classmethod
    def before(cls, project: Project) -> "Untouched":
        return cls(project, project.repo.facts(), project.refs())

    def check(self) -> None:
        """Fail the test if anything is there that was not."""
        assert self.project.runs == []
        assert self.project.refs() == self.refs
        assert self.project.repo.facts() == self.facts
        assert not (self.project.folder / "state").exists()


async def refused(project: Project, task: Task, error: type[PinataError], said: str) -> None:
    """Run one reviewer; fail unless that is refused like this and leaves nothing."""
    untouched = Untouched.before(project)
    with pytest.raises(error, match=said):
        await project.run([task], {"*": [approves()]})
    untouched.check()


@pytest.mark.slow
async def test_uncommitted_changes_are_judged_as_they_are_when_the_run_starts(
    project: Project,
) -> None:
    project.repo.write("a.txt", "two\n")
    project.repo.write("new file.txt", "new\n")
    head = project.repo.ask("rev-parse", "HEAD")
    before = project.repo.facts()
    judge = await judged(project, of_base("HEAD"), says("read", path="a.txt"), ECHO_PRINT)
    assert (judge["status"], judge["verdict"]) == ("succeeded", "approve")
    snapshot = project.refs()[f"refs/pinata/{judge['run']}/checkout"]
    review = judge["review"]
    assert review == {
        "target": {"kind": "uncommitted", "ref": "HEAD", "base": head, "head": snapshot},
        "fingerprint": review["fingerprint"],
        "scope": "existing-changes",
        "verdict": "approve",
        "current": True,
    }
    assert len(review["fingerprint"]) == 64
    brief = await brief_of(project, judge["run"])
    assert "Task: none" in brief
    assert "the uncommitted changes against `HEAD`" in brief
    assert "`a.txt`" in brief
    assert "`new file.txt`" in brief
    assert f"live checkout: `{project.repo.root}`" in brief
    assert "+two" in diff_of(project, judge["run"])
    assert "checkoutChanged" not in judge
    assert project.repo.facts() == before


async def test_a_branch_is_judged_from_where_it_left_the_other(project: Project) -> None:
    parted = project.repo.ask("rev-parse", "HEAD")
    project.repo.git("checkout", "--quiet", "-b", "feature")
    project.repo.write("a.txt", "committed\n")
    project.repo.commit("on the feature")
    project.repo.git("checkout", "--quiet", "main")
    project.repo.write("theirs.txt", "theirs\n")
    project.repo.commit("on main")
    project.repo.git("checkout", "--quiet", "feature")
    project.repo.write("b.txt", "dirty\n")
    judge = await judged(project, of_base("main"), requests_changes(summary="too short"))
    assert (judge["status"], judge["verdict"]) == ("rejected", "changes_requested")
    target = judge["review"]["target"]
    assert (target["kind"], target["ref"], target["base"]) == ("branch", "main", parted)
    assert judge["review"]["current"]
    diff = diff_of(project, judge["run"])
    assert "+committed" in diff
    assert "+dirty" in diff
    assert "theirs" not in diff


@pytest.mark.parametrize("revision", ["gone", "main..main", "HEAD^{tree}", "^HEAD"])
async def test_a_revision_that_does_not_exist_fails_the_call(
    project: Project, revision: str
) -> None:
    project.repo.write("a.txt", "two\n")
    said = "task judge: reviewBase .*: there is no such revision here"
    await refused(project, of_base(revision), UsageError, said)


async def test_a_history_of_its_own_fails_the_call(project: Project) -> None:
    project.repo.git("checkout", "--quiet", "--orphan", "island")
    project.repo.commit("island")
    said = 'task judge: reviewBase "main": its history has no commit in common'
    await refused(project, of_base("main"), UsageError, said)


async def test_a_clean_checkout_is_nothing_to_review(project: Project) -> None:
    said = 'task judge: reviewBase "HEAD": there is nothing to review'
    await refused(project, of_base("HEAD"), ConflictError, said)


async def test_conflicts_that_nobody_settled_are_no_content_to_review(project: Project) -> None:
    blob = project.repo.store(b"ours\n")
    stages = "".join(f"100644 {blob} {stage}\ta.txt\n" for stage in (1, 2, 3))
    project.repo.git(
        "update-index", "--index-info", stdin=f"0 {'0' * 40}\ta.txt\n{stages}".encode()
    )
    await refused(project, of_base("HEAD"), ConflictError, r"these paths are unmerged: a\.txt")


async def test_a_repository_without_commits_has_nothing_to_be_held_against(
    project: Project,
) -> None:
    project.repo.git("checkout", "--quiet", "--orphan", "unborn")
    with pytest.raises(ConflictError, match="has no commit yet"):
        await project.run([of_base("main")], {"*": [approves()]})
    assert project.runs == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "is_told"),
    [("edit", True), ("commit", True), ("stage", False)],
)
async def test_a_checkout_that_moved_on_is_told_and_the_verdict_is_about_the_snapshot(
    project: Project, does: str, *, is_told: bool
) -> None:
    project.repo.write("a.txt", "two\n")
    project.recorder = Mover(repo=project.repo, does=does)
    # It happens after the run started, and before the reviewer looks at anything.
    answer = await project.run(
        [scout("look"), of_base("HEAD", after=["look"])],
        {"look": [reports()], "judge": [approves()]},
    )
    judge = task_of(answer, "judge")
    assert (judge["verdict"], judge["review"]["current"]) == ("approve", True)
    assert "+two" in diff_of(project, answer["run"])
    assert judge.get("checkoutChanged", False) is is_told
    told = [event for event in project.recorder.events if isinstance(event, CheckoutChanged)]
    assert bool(told) is is_told
    notices = " ".join(judge.get("notices", ()))
    assert ("the verdict is about what it was then" in notices) is is_told


@pytest.mark.slow
async def test_a_builder_that_sees_no_uncommitted_work_does_not_hide_it_from_a_review(
    project: Project,
) -> None:
    project.repo.write("a.txt", "two\n")
    answer = await project.run(
        [builder("fix", "b.txt"), reviewer("check", "fix"), of_base("HEAD")],
        {
            "fix": [shell("grep -q one a.txt && echo c > b.txt"), submits(changedFiles=["b.txt"])],
            "*": [approves()],
        },
        config={"includeUncommitted": False},
    )
    assert set(statuses(answer).values()) == {"succeeded"}
    assert "+two" in diff_of(project, answer["run"])
    refs = project.refs()
    base, whole = (refs[f"refs/pinata/{answer['run']}/{end}"] for end in ("base", "checkout"))
    assert base == project.repo.ask("rev-parse", "HEAD") != whole


@pytest.mark.slow
async def test_a_verdict_on_existing_changes_lets_no_builder_in(project: Project) -> None:
    project.repo.write("a.txt", "two\n")
    answer = await project.run(
        [builder("fix", "b.txt"), of_base("HEAD")],
        {
            "fix": [shell("echo c > b.txt"), submits(changedFiles=["b.txt"])],
            "judge": [approves()],
        },
    )
    assert set(statuses(answer).values()) == {"succeeded"}
    with pytest.raises(ConflictError, match="task fix: nobody reviewed its change"):
        await project.call("pinata_integrate", {"run": answer["run"]})


@pytest.mark.parametrize(
    ("turn", "status", "verdict"),
    [
        ({"text": "looks fine"}, "failed", None),
        (submits(status="failed", blockers=["too long"]), "failed", None),
        (requests_changes(status="failed"), "rejected", "changes_requested"),
    ],
    ids=["silent", "gives up", "rejects"],
)
async def test_a_reviewer_without_a_verdict_has_judged_nothing(
    project: Project, turn: Turn, status: str, verdict: str | None
) -> None:
    project.repo.write("a.txt", "two\n")
    judge = await judged(project, of_base("HEAD"), turn)
    assert (judge["status"], judge.get("verdict")) == (status, verdict)
    assert judge["review"]["current"] is (verdict is not None)


async def test_what_a_reviewer_echoes_must_be_what_it_judges(project: Project) -> None:
    project.repo.write("a.txt", "two\n")
    wrong = submits(review={"verdict": "approve", "fingerprint": "0" * 64})
    judge = await judged(project, of_base("HEAD"), ECHO_TASK, wrong, ECHO_PRINT)
    assert judge["verdict"] == "approve"
    transcript = read((await project.result(judge["run"], "judge"))["transcript"])
    assert "is not what you review; leave it out" in transcript
    assert f"is not that of your target; it is {judge['review']['fingerprint']}" in transcript


@pytest.mark.slow
async def test_a_pull_request_is_judged_at_its_head_and_moves_nothing(
    project: Project, hub: Github
) -> None:
    project.repo.write("b.txt", "dirty\n")
    before, parted = project.repo.facts(), project.repo.ask("rev-parse", "HEAD")
    turns = [says("read", path="a.txt"), says("read", path="b.txt"), ECHO_PRINT]
    seen = [{"id": "seen", "argv": ["grep", "-q", "pulled", "a.txt"]}]
    judge = await judged(project, of_pull(evidenceChecks=seen), *turns)
    assert (judge["status"], judge["verdict"]) == ("succeeded", "approve")
    assert judge["review"]["target"] == {
        "kind": "pull-request",
        "ref": "main",
        "base": parted,
        "head": hub.head,
        "pr": {"number": NUMBER, "title": "Round halves up", "url": f"{PAGE}/{NUMBER}"},
    }
    assert judge["review"]["scope"] == "existing-changes"
    run = judge["run"]
    assert project.refs()[f"refs/pinata/{run}/pr/7/head"] == hub.head
    assert project.repo.facts() == before
    transcript = read((await project.result(run, "judge"))["transcript"])
    assert "pulled" in transcript
    assert "dirty" not in transcript
    assert "+pulled" in diff_of(project, run)
    brief = await brief_of(project, run)
    assert 'titled \\"Round halves up\\"' in brief
    assert "It holds what you review" in brief
    assert str(project.repo.root) not in brief.split("## Review target", maxsplit=1)[0]
    assert hub.arguments.startswith("pr view 7 --json ")


@pytest.mark.slow
async def test_reviewers_of_one_pull_request_share_its_worktree_and_its_fetch(
    project: Project, hub: Github
) -> None:
    hub.does(f"echo >> {hub.folder}/asked; cat {hub.folder}/answer.json")
    answer = await project.run(
        [of_pull(id_=f"judge-{n}") for n in range(3)], {"*": [says("ls", path="."), approves()]}
    )
    assert set(statuses(answer).values()) == {"succeeded"}
    assert (hub.folder / "asked").read_text() == "\n"
    (place,) = (project.folder / "state/pinata/worktrees").glob("*/*/*")
    assert place.name == "pr.7"
    assert len({task["review"]["fingerprint"] for task in answer["tasks"]}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("edit", ["echo more >> a.txt", "touch extra.txt", "rm new.txt"])
async def test_a_pull_request_altered_under_review_fails_it(
    project: Project, hub: Github, edit: str
) -> None:
    checks = [{"id": "edit", "argv": ["sh", "-c", edit]}]
    judge = await judged(project, of_pull(evidenceChecks=checks))
    assert judge["status"] == "failed"
    assert "changed the source" in judge["reason"]
    assert judge["review"]["verdict"] is None
    assert not judge["review"]["current"]


async def test_a_head_that_moved_since_gh_was_asked_fails_the_call(
    project: Project, hub: Github
) -> None:
    hub.answers(headRefOid="1" * 40)
    said = "task judge: reviewPr 7: pull request 7 changed while fetching"
    await refused(project, of_pull(), ConflictError, said)


async def test_a_merged_pull_request_is_nothing_to_review(project: Project, hub: Github) -> None:
    hub.upstream.git("update-ref", "refs/heads/main", hub.head)
    said = "task judge: reviewPr 7: there is nothing to review"
    await refused(project, of_pull(), ConflictError, said)


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "ext::sh -c 'touch owned'"},
        {"url": "--upload-pack=touch owned"},
        {"baseRefName": "--upload-pack=touch owned"},
        {"baseRefName": "main:refs/heads/main"},
        {"headRefOid": "main"},
        {"number": 8},
    ],
    ids=["helper", "option", "branch option", "refspec", "no commit", "other number"],
)
async def test_a_hostile_answer_of_gh_starts_nothing_and_leaves_nothing(
    project: Project, hub: Github, fields: dict[str, object]
) -> None:
    hub.answers(**fields)
    said = "task judge: reviewPr 7: the answer of gh is not one about a pull request"
    await refused(project, of_pull(), ExternalError, said)
    assert not (project.repo.root / "owned").exists()


@pytest.mark.slow
async def test_a_repository_that_no_remote_leads_to_is_fetched_from_its_own_address(
    project: Project, hub: Github
) -> None:
    project.repo.git("remote", "remove", "origin")
    judge = await judged(project, of_pull())
    assert judge["verdict"] == "approve"


async def test_a_remote_that_starts_a_program_is_not_fetched_from(
    project: Project, hub: Github
) -> None:
    project.repo.git("config", "--unset", f"url.{hub.upstream.root}.insteadOf")
    project.repo.git("config", "url.ext::touch owned .insteadOf", "https://github.com/")
    said = "task judge: reviewPr 7: the address of its repository is none of https"
    await refused(project, of_pull(), ConflictError, said)
    assert not (project.repo.root / "owned").exists()


async def test_missing_gh_is_said_with_a_remedy(project: Project) -> None:
    said = "task judge: reviewPr 7: gh, the command line of GitHub, cannot be started"
    await refused(project, of_pull(), ExternalError, said)


@pytest.mark.slow
async def test_what_lets_gh_in_reaches_no_agent_and_no_check(project: Project, hub: Github) -> None:
    secrets = {"GH_TOKEN": "t1", "GITHUB_TOKEN": "t2", "SSH_AUTH_SOCK": "/s", "GH_CONFIG_DIR": "/c"}
    project.repo.env.update(secrets)
    checks = [{"id": "env", "argv": ["env"]}]
    look = shell(f"env > {project.folder}/agent; echo c > b.txt")
    answer = await project.run(
        [of_pull(evidenceChecks=checks), builder("fix", "b.txt", checks=checks)],
        {"judge": [approves()], "fix": [look, submits(changedFiles=["b.txt"])]},
    )
    assert set(statuses(answer).values()) == {"succeeded"}
    assert secrets.items() <= hub.environment.items()
    checked = [await project.result(answer["run"], task) for task in ("judge", "fix")]
    seen = [read(result["checks"][0]["stdout"]["path"]) for result in checked]
    for text in [*seen, read(f"{project.folder}/agent")]:
        assert "PATH=" in text
        assert not [name for name in secrets if name in text]


@pytest.mark.slow
async def test_a_run_that_is_taken_up_needs_neither_gh_nor_network(
    project: Project, hub: Github
) -> None:
    tasks = [scout("look"), of_pull(after=["look"])]
    answer = await project.run(tasks, {"look": [reports()], "judge": [approves()]})
    forget_all_but_the_first_result(Path(answer["dir"]))
    (place,) = (project.folder / "state/pinata/worktrees").glob("*/*/pr.7")
    # Whatever became of its worktree meanwhile, it is not what is read.
    (place / "new.txt").unlink()
    hub.does("exit 1")
    hub.upstream.root.rename(project.folder / "gone")
    resumed = project.pinata("resume", answer["run"])
    assert resumed.returncode == 0, resumed.stderr
    again = await project.call("pinata_status", {"run": answer["run"]})
    assert task_of(again, "judge")["review"] == task_of(answer, "judge")["review"]
    assert statuses(again) == {"look": "succeeded", "judge": "succeeded"}
    assert (place / "new.txt").exists()


async def test_objects_that_are_not_the_recorded_ones_are_never_judged(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.repo.write("a.txt", "two\n")
    monkeypatch.setattr(existing, "subject_fingerprint", lambda *_: "other")
    judge = await judged(project, of_base("HEAD"))
    assert (judge["status"], judge["reason"]) == (
        "failed",
        "the changes under review are not the recorded ones",
    )


@pytest.mark.slow
async def test_a_diff_beyond_the_limit_is_cut_and_the_whole_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "DIFF_LIMIT_BYTES", 1 << 20)
    project.repo.write("a.txt", "line\n" * 400_000)
    judge = await judged(project, of_base("HEAD"))
    cut = diff_of(project, judge["run"])
    whole = project.repo.root / ".git/pinata" / judge["run"] / "reviews/judge.1.patch"
    assert len(cut) <= (1 << 20) + 300
    assert str(whole) in cut.splitlines()[-1]
    assert f"the diff below ends after 1 MiB, all of it is in `{whole}`" in await brief_of(
        project, judge["run"]
    )
    assert whole.stat().st_size > 2_000_000
