"""Evidence travels with the repository, says all that is needed, and cannot be bent unnoticed."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.errors import ConflictError, CorruptionError, UsageError
from engine.core.ids import BlobId, CommitId, RunId
from pinata import app
from pinata.work.evidence_record import DIGESTS, encode_digests
from pinata.work.observer import Silence
from tests.support.live import agents_left, live
from tests.support.projects import (
    PASS,
    Project,
    approves,
    builder,
    reports,
    requests_changes,
    reviewer,
    scout,
    shell,
    submits,
)
from tests.support.repos import RepoBuilder
from worktrees.evidence import EvidenceTree, keep_evidence, read_evidence

pytestmark = pytest.mark.slow

CHANGED = ["a.txt", "gone.txt", "new.sh"]
FILES: dict[str, str | bytes] = {
    "a.txt": "".join(f"line {number}\n" for number in range(40)),
    "gone.txt": "g\n",
    "kept.txt": "nobody touches this\n",
}
EDIT = (
    "sed -i -e 's/^line 2$/two/' -e 's/^line 35$/thirty-five/' a.txt;"
    " rm gone.txt; echo echo hi > new.sh; chmod +x new.sh"
)
SEEN = [{"id": "seen", "argv": ["grep", "-q", "two", "a.txt"]}]
Documents = dict[str, bytes]


@dataclass(frozen=True)
class Travelled:
    """A clone that holds a commit with the integrated change and nothing but the evidence ref.

    Attributes:
        id: of the evidence commit.
        run: whose evidence it is.
    """

    clone: RepoBuilder
    id: str
    run: str
    scratch: Path

    async def verify(self, name: str | None = None, **more: Any) -> dict[str, Any]:
        env = self.clone.env | {"XDG_STATE_HOME": str(self.scratch / "state")}
        context = app.build_context(env, self.clone.root, Silence())
        given = {"expected": None, "commit": "HEAD", "run_checks": False} | more
        return await app.verify_evidence(context, name=self.id if name is None else name, **given)

    async def bent(
        self,
        bend: Callable[[Documents], None],
        *,
        again: bool = True,
        files: frozenset[BlobId] = frozenset(),
    ) -> str:
        """Return the ref of evidence whose documents were changed, digests made anew or not."""
        repo = await self.clone.discovered()
        tree = await read_evidence(repo, CommitId(self.id))
        documents = dict(tree.documents)
        bend(documents)
        if again:
            del documents[DIGESTS]
            documents[DIGESTS] = encode_digests(documents)
        run = RunId("f" * 16)
        await keep_evidence(repo, run, EvidenceTree(documents, tree.files | files), 0)
        return f"refs/pinata/{run}/evidence"


async def make(folder: Path) -> Travelled:
    project = Project.create(folder, dict(FILES))
    check = {"id": "there", "argv": ["test", "-x", "new.sh"]}
    answer = await project.run(
        [builder("fix", *CHANGED, checks=[check]), reviewer("check", "fix"), scout("look")],
        {
            "fix": [shell(EDIT), submits(changedFiles=CHANGED)],
            "check": [approves()],
            "look": [reports()],
        },
        integratedChecks=SEEN,
    )
    assert answer["status"] == "succeeded", answer
    settled = answer["evidence"]["id"]
    done = await project.call("pinata_integrate", {"run": answer["run"]})
    evidence = done["evidence"]
    assert evidence["id"] != settled
    assert project.repo.ask("rev-parse", f"{evidence['id']}^").strip() == settled
    project.repo.git("add", "--all")
    project.repo.git("commit", "-qm", "the integrated change")
    clone = RepoBuilder.create(folder / "clone", None)
    clone.git(
        "fetch", "-q", str(project.repo.root), "HEAD", f"+{evidence['ref']}:{evidence['ref']}"
    )
    clone.git("reset", "-q", "--hard", "FETCH_HEAD")
    return Travelled(clone, evidence["id"], answer["run"], folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Travelled:
    return trio.run(make, tmp_path_factory.mktemp("evidence"))


@pytest.fixture
def travelled(made: Travelled) -> Travelled:
    made.clone.git("checkout", "-qf", "--detach", "FETCH_HEAD")
    made.clone.git("clean", "-qfd")
    return made


def committed(travelled: Travelled, command: str) -> None:
    script = ["bash", "-ec", command]
    with ThreadPoolExecutor(1) as thread:
        thread.submit(subprocess.run, script, cwd=travelled.clone.root, check=True).result()
    travelled.clone.git("add", "--all")
    travelled.clone.git("commit", "-qm", "another")


async def test_commit_with_the_integrated_change_is_verified(travelled: Travelled) -> None:
    before = travelled.clone.facts(), travelled.clone.ask("worktree", "list")
    answer = await travelled.verify()
    assert (answer["status"], answer["application"], answer["pinned"]) == (
        "verified",
        "exact",
        True,
    )
    assert [(check["id"], check["passed"]) for check in answer["checks"]] == [("seen", True)]
    assert (travelled.clone.facts(), travelled.clone.ask("worktree", "list")) == before
    ref = f"refs/pinata/{travelled.run}/evidence"
    assert (await travelled.verify(ref, expected=travelled.id))["status"] == "verified"
    assert (await travelled.verify(commit=None))["status"] == "verified"


async def test_no_content_of_an_unaffected_path_is_reachable(travelled: Travelled) -> None:
    listed = travelled.clone.ask("rev-list", "--objects", travelled.id)
    kept = travelled.clone.ask("rev-parse", "HEAD:kept.txt").strip()
    assert kept not in listed
    assert travelled.clone.ask("rev-parse", "HEAD:new.sh").strip() in listed


async def test_evidence_names_no_place_of_the_machine_it_was_made_on(travelled: Travelled) -> None:
    repo = await travelled.clone.discovered()
    tree = await read_evidence(repo, CommitId(travelled.id))
    text = b"\n".join(tree.documents.values()).decode()
    assert str(travelled.scratch) not in text


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("sed -i 's/^two$/tvo/' a.txt", "a.txt"),
        ("sed -i 's/^thirty-five$/line 35/' a.txt", "a.txt"),
        ("chmod -x new.sh", "new.sh"),
        ("git show FETCH_HEAD~1:gone.txt > gone.txt", "gone.txt"),
        ("rm new.sh; mkdir new.sh; touch new.sh/x", "new.sh"),
    ],
)
async def test_commit_that_differs_in_an_affected_path_is_told_by_it(
    command: str, path: str, travelled: Travelled
) -> None:
    committed(travelled, command)
    for commit in ("HEAD", None):
        answer = await travelled.verify(commit=commit)
        assert (answer["application"], answer["differingPaths"]) == ("different", [path])


async def test_commit_that_goes_on_elsewhere_is_still_exact(travelled: Travelled) -> None:
    committed(travelled, "echo more > kept.txt; echo other > other.txt")
    assert (await travelled.verify())["application"] == "exact"


async def test_checks_run_in_the_commit_and_not_in_the_checkout(travelled: Travelled) -> None:
    travelled.clone.write("a.txt", "two, but not committed\n")
    travelled.clone.git("rm", "-q", "--cached", "new.sh")
    answer = await travelled.verify()
    assert (answer["status"], answer["application"]) == ("verified", "exact")
    committed(travelled, "git checkout -q FETCH_HEAD~1 -- a.txt")
    assert (await travelled.verify())["status"] == "verification_failed"


def edited(path: str, edit: Callable[[dict[str, Any]], None]) -> Callable[[Documents], None]:
    def bend(documents: Documents) -> None:
        document = json.loads(documents[path])
        edit(document)
        documents[path] = json.dumps(document).encode()

    return bend


def without(path: str) -> Callable[[Documents], None]:
    def bend(documents: Documents) -> None:
        del documents[path]

    return bend


def with_checks(checks: list[dict[str, Any]]) -> Callable[[Documents], None]:
    """Return what gives a run other checks for its destination, and no receipt of the old ones."""

    def bend(documents: Documents) -> None:
        edited("manifest.json", lambda d: d.update(integrated_checks=checks))(documents)
        without("receipts/1.json")(documents)

    return bend


def unbent(documents: Documents) -> None:
    assert documents


def dropped_hunk(documents: Documents) -> None:
    lines = documents["writers/fix.patch"].splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if line.startswith(b"@@")]
    del lines[starts[0] : starts[1]]
    patch = b"".join(lines)
    documents["writers/fix.patch"] = patch
    writer = json.loads(documents["writers/fix.json"])
    writer["patch"] = {"size_bytes": len(patch), "sha256": hashlib.sha256(patch).hexdigest()}
    documents["writers/fix.json"] = json.dumps(writer).encode()


BENT: dict[str, tuple[Callable[[Documents], None], str]] = {
    "a verdict": (
        edited("reviews/check.json", lambda d: d.update(verdict="changes_requested")),
        "reviews/check.json: check did not approve",
    ),
    "what a reviewer handed in": (
        edited(
            "reviews/check.json",
            lambda d: d["submission"]["review"].update(verdict="changes_requested"),
        ),
        "reviews/check.json: its verdict is not the one that was handed in",
    ),
    "what a review is bound to": (
        edited("reviews/check.json", lambda d: d.update(fingerprint="0" * 64)),
        "reviews/check.json: it approves another change than the one of fix",
    ),
    "a fingerprint": (
        edited("writers/fix.json", lambda d: d.update(fingerprint="0" * 64)),
        "writers/fix.json: its fingerprint does not fit",
    ),
    "what was checked": (
        edited("writers/fix.json", lambda d: d["checks"][0].update(argv=["true"])),
        "writers/fix.json: its fingerprint does not fit",
    ),
    "an exit code": (
        edited("writers/fix.json", lambda d: d["checks"][0].update(code=1)),
        "writers/fix.json is damaged",
    ),
    "an exit code and its outcome": (
        edited("writers/fix.json", lambda d: d["checks"][0].update(code=1, passed=False)),
        "writers/fix.json: its fingerprint does not fit",
    ),
    "a claim": (
        edited("writers/fix.json", lambda d: d["submission"].update(summary="nothing")),
        "writers/fix.json: its fingerprint does not fit",
    ),
    "a writer's second place in the order": (
        edited("manifest.json", lambda d: d.update(order=["fix", "fix"])),
        "manifest.json: it names a writer twice",
    ),
    "an id that is a path": (
        edited("manifest.json", lambda d: d["integrated_checks"][0].update(id="../../pwn")),
        "manifest.json is damaged: integrated_checks[0].id",
    ),
    "a check without a program": (
        edited("manifest.json", lambda d: d["integrated_checks"][0].update(argv=[])),
        "manifest.json is damaged: integrated_checks[0].argv",
    ),
    "a time limit": (
        edited("manifest.json", lambda d: d["integrated_checks"][0].update(timeout_ms=-1)),
        "manifest.json is damaged: integrated_checks[0].timeoutMs",
    ),
    "a variable that is handed on": (
        edited("manifest.json", lambda d: d.update(pass_env=["LD_PRELOAD"])),
        "manifest.json is damaged: passEnv name",
    ),
    "a review that was never handed in": (
        edited("reviews/check.json", lambda d: d["submission"].update(review="approve")),
        "reviews/check.json: its verdict is not the one that was handed in",
    ),
    "a changed path": (
        edited("writers/fix.json", lambda d: d["changes"][0].update(path="b.txt")),
        "writers/fix.json: its fingerprint does not fit",
    ),
    "a path that leads out": (
        edited("writers/fix.json", lambda d: d["changes"][0].update(path="../a.txt")),
        "writers/fix.json is damaged: its changes",
    ),
    "a path that cannot be read": (
        edited("writers/fix.json", lambda d: d["changes"][0].update(path='"\\')),
        "writers/fix.json is damaged: its changes",
    ),
    "a mode": (
        edited("writers/fix.json", lambda d: d["changes"][0].update(new_mode="--option")),
        "writers/fix.json is damaged: a change has no proper modes",
    ),
    "a patch": (
        lambda d: d.update({"writers/fix.patch": d["writers/fix.patch"].replace(b"+two", b"+tvo")}),
        "writers/fix.json: its patch is not the one that it names",
    ),
    "a hunk and its digest": (dropped_hunk, "writers/fix.patch does not lead"),
    "the run's status": (
        edited("manifest.json", lambda d: d.update(status="failed")),
        "manifest.json: the run is failed",
    ),
    "the order": (
        edited("manifest.json", lambda d: d.update(order=["fix", "other"])),
        "writers/other.json is missing",
    ),
    "a receipt's status": (
        edited("receipts/1.json", lambda d: d.update(status="not_run")),
        "receipts/1.json: not_run is not what its checks and states come to",
    ),
    "the checks of the destination": (
        edited("manifest.json", lambda d: d["integrated_checks"][0].update(argv=["true"])),
        "receipts/1.json: check seen is not the one that manifest.json names",
    ),
    "what a receipt checked": (
        edited("receipts/1.json", lambda d: d["checks"][0].update(argv=["true"])),
        "receipts/1.json: check seen is not the one that manifest.json names",
    ),
    "an exit code of a receipt": (
        edited("receipts/1.json", lambda d: d["checks"][0].update(code=1, passed=False)),
        "receipts/1.json: verified is not what its checks and states come to",
    ),
    "a receipt's run": (
        edited("receipts/1.json", lambda d: d.update(run="0" * 16)),
        "receipts/1.json: it is another receipt",
    ),
    "a review that is missing": (
        without("reviews/check.json"),
        "writers/fix.json: nobody reviewed it",
    ),
    "a manifest that is missing": (
        without("manifest.json"),
        "the evidence has no manifest.json",
    ),
    "a document that nobody knows": (
        lambda d: d.update({"notes/x.json": b"{}"}),
        "notes/x.json does not belong",
    ),
    "a document that is no JSON": (
        lambda d: d.update({"manifest.json": b"["}),
        "manifest.json is damaged",
    ),
}


@pytest.mark.parametrize("what", BENT)
async def test_inconsistent_evidence_is_told_by_what_was_bent(
    what: str, travelled: Travelled
) -> None:
    bend, says = BENT[what]
    answer = await travelled.verify(await travelled.bent(bend), run_checks=True)
    assert answer["status"] == "faulty"
    assert answer["checks"] == []
    assert any(fault.startswith(says) for fault in answer["faults"]), answer["faults"]


@pytest.mark.parametrize("path", ["manifest.json", "writers/fix.patch", "reviews/check.json"])
async def test_document_without_its_digest_is_told_by_its_path(
    path: str, travelled: Travelled
) -> None:
    ref = await travelled.bent(lambda d: d.update({path: d[path] + b"\n"}), again=False)
    answer = await travelled.verify(ref)
    assert answer["faults"] == [f"{path} of the evidence was altered: it has another digest"]


def nothing(documents: Documents) -> None:
    """Leave evidence of a run that changed nothing at all."""
    for path in [path for path in documents if not path.startswith(("manifest", "digests"))]:
        del documents[path]
    edited("manifest.json", lambda d: d.update(order=[]))(documents)


async def test_evidence_of_nothing_proves_nothing(travelled: Travelled) -> None:
    (fault, *_) = (await travelled.verify(await travelled.bent(nothing)))["faults"]
    assert fault.startswith("manifest.json: it names no change")


async def test_tree_that_hides_a_file_behind_a_slash_is_no_commit_to_verify(
    travelled: Travelled,
) -> None:
    clone = travelled.clone
    listed = clone.git("ls-tree", "-z", "FETCH_HEAD")
    blob = clone.ask("rev-parse", "FETCH_HEAD~1:gone.txt").strip()
    rows = b"".join(
        row.split(b" ")[0].zfill(6).lstrip(b"0")
        + b" "
        + row.partition(b"\t")[2]
        + b"\0"
        + bytes.fromhex(row.split(b" ")[2].partition(b"\t")[0].decode())
        for row in listed.split(b"\0")[:-1]
    )
    rows += b"100644 sub/gone.txt\0" + bytes.fromhex(blob)
    made = ("hash-object", "-t", "tree", "-w", "--literally", "--stdin")
    tree = clone.git(*made, stdin=rows).decode().strip()
    commit = clone.git("commit-tree", tree, "-m", "x").decode().strip()
    with pytest.raises(CorruptionError, match="no proper names"):
        await travelled.verify(commit=commit)


def left_behind(travelled: Travelled) -> list[str]:
    worktrees = travelled.clone.ask("worktree", "list", "--porcelain").count("worktree ")
    kept = travelled.clone.root / ".git" / "pinata" / "verification"
    return ["worktree"] * (worktrees - 1) + ["bench"] * kept.exists()


async def test_verification_that_was_killed_is_cleared_away_by_the_next(
    travelled: Travelled, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    code = f"open({str(begun)!r}, 'w').close(); import time; time.sleep(600)"
    hangs = [{"id": "hangs", "argv": [sys.executable, "-c", code], "timeout_ms": 600_000}]
    ref = await travelled.bent(with_checks(hangs))
    project = Project(travelled.clone, travelled.scratch)
    more = ("--commit", "HEAD", "--run-checks")

    def kill_it() -> None:
        with live(project, "verify", "--evidence", ref, *more) as program:
            begun.read_bytes()
            program.process.kill()

    await trio.to_thread.run_sync(kill_it)
    assert len(agents_left(project)) == 1
    assert left_behind(travelled) == ["worktree", "bench"]
    assert (await travelled.verify())["status"] == "verified"
    assert left_behind(travelled) == []
    assert agents_left(project) == []


async def test_content_that_belongs_to_no_change_is_told(travelled: Travelled) -> None:
    kept = BlobId(travelled.clone.ask("rev-parse", "HEAD:kept.txt").strip())
    ref = await travelled.bent(unbent, files=frozenset({kept}))
    assert (await travelled.verify(ref))["faults"] == [f"files/{kept} belongs to no change"]


async def test_consistent_rewrite_is_refused_once_the_id_is_pinned(travelled: Travelled) -> None:
    def rewritten(documents: Documents) -> None:
        edited("manifest.json", lambda d: d.update(starting_head="0" * 40))(documents)

    ref = await travelled.bent(rewritten)
    with pytest.raises(UsageError, match="which was expected"):
        await travelled.verify(ref, expected=travelled.id)
    for name in ("f" * 40, "refs/pinata/nowhere/evidence", "--all", "HEAD^{tree}"):
        with pytest.raises(UsageError, match="there is no evidence"):
            await travelled.verify(name)
    with pytest.raises(UsageError, match="there is no commit"):
        await travelled.verify(commit="nowhere")


async def test_what_can_not_have_been_meant_as_evidence_is_refused(travelled: Travelled) -> None:
    def beheaded(documents: Documents) -> None:
        del documents["manifest.json"]

    with pytest.raises(UsageError, match="HEAD is a commit, but no evidence: name a ref"):
        await travelled.verify("HEAD")
    with pytest.raises(UsageError, match="does the commit have a Pinata-Evidence trailer"):
        await travelled.verify("")
    bent = await travelled.bent(beheaded)
    assert (await travelled.verify(bent))["faults"] == ["the evidence has no manifest.json"]


async def test_nothing_of_an_unpinned_ref_is_executed_unasked(
    travelled: Travelled, tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    argv = [sys.executable, "-c", f"open({str(trace)!r}, 'w')"]
    check = [{"id": "mine", "argv": argv, "timeout_ms": 9_000}]
    ref = await travelled.bent(with_checks(check))
    answer = await travelled.verify(ref)
    assert (answer["status"], answer["omitted"]) == ("not_run", ["mine"])
    assert not trace.exists()
    assert (await travelled.verify(ref, run_checks=True))["status"] == "verified"
    assert trace.exists()


async def test_evidence_without_checks_verifies_nothing(travelled: Travelled) -> None:
    ref = await travelled.bent(with_checks([]))
    assert (await travelled.verify(ref, run_checks=True))["status"] == "not_run"


async def test_contents_of_secret_names_stay_at_home(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n", ".env": "KEY=old-secret\n"})
    answer = await project.run(
        [builder("fix", "a.txt", ".env"), reviewer("check", "fix")],
        {
            "fix": [
                shell("echo two > a.txt; echo KEY=new-secret > .env"),
                submits(changedFiles=[".env", "a.txt"]),
            ],
            "check": [approves()],
        },
    )
    id_ = answer["evidence"]["id"]
    repo = await project.repo.discovered()
    tree = await read_evidence(repo, CommitId(id_))
    assert json.loads(tree.documents["writers/fix.json"])["withheld"] == [".env"]
    assert b"secret" not in b"".join(tree.documents.values())
    for blob in tree.files:
        assert b"secret" not in project.repo.git("cat-file", "blob", blob)
    travelled = Travelled(project.repo, id_, answer["run"], tmp_path)
    (fault,) = (await travelled.verify())["faults"]
    assert fault == (
        "writers/fix.json: .env has a name that bears secrets: such a change is never integrated; "
        "make it by hand"
    )


async def test_unapproved_run_leaves_evidence_that_says_so(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    answer = await project.run(
        [builder("fix", "a.txt"), reviewer("check", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "check": [requests_changes()],
        },
    )
    travelled = Travelled(project.repo, answer["evidence"]["id"], answer["run"], tmp_path)
    faults = (await travelled.verify())["faults"]
    assert "manifest.json: the run is failed" in faults
    assert "reviews/check.json: check did not approve" in faults


async def test_run_without_writers_leaves_no_evidence(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    answer = await project.run([scout("look")], {"look": [reports()]})
    assert "evidence" not in answer
    assert not [ref for ref in project.refs() if ref.endswith("/evidence")]


async def test_same_evidence_makes_no_second_commit(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]},
    )
    run, first = answer["run"], answer["evidence"]["id"]
    status = await project.call("pinata_status", {"run": run})
    assert status["evidence"]["id"] == first
    repo = await project.repo.discovered()
    tree = await read_evidence(repo, CommitId(first))
    assert await keep_evidence(repo, RunId(run), tree, 99_000) == first


async def test_evidence_that_cannot_be_written_takes_nothing_back(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    checks = [{"id": "fine", "argv": PASS}]
    answer = await project.run(
        [builder("fix", "a.txt"), reviewer("check", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "check": [approves()],
        },
        integratedChecks=checks,
    )
    lock = project.repo.root / ".git" / f"{answer['evidence']['ref']}.lock"
    lock.touch()
    done = await project.call("pinata_integrate", {"run": answer["run"]})
    assert done["status"] == "verified"
    assert "evidence" not in done
    assert done["notices"][0].startswith("no evidence was written: ")


async def test_agents_and_checks_verify_nothing(travelled: Travelled) -> None:
    env = travelled.clone.env | {"PINATA_AGENT": "1"}
    marked = replace(travelled, clone=replace(travelled.clone, env=env))
    with pytest.raises(ConflictError, match="PINATA_AGENT"):
        await marked.verify()
