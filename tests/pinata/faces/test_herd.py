"""What a person at a terminal sees of managed agents, and what they can have their owners do."""

import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.errors import ConflictError, ExternalError, PinataError, UsageError
from engine.records.host import hello
from pinata import app
from pinata.faces import cli
from pinata.faces.arguments import parse
from pinata.faces.herd import COMMANDS, refusal
from pinata.faces.host import HostFace
from pinata.work.herd_place import Place
from pinata.work.host import Setting, open_host
from pinata.work.host_client import attach
from pinata.work.host_record import find_host
from pinata.work.session import Session
from tests.support.bridges import pi_in
from tests.support.herd_desk import define_in
from tests.support.herd_hosts import HerdHost, open_herd_host
from tests.support.hosts import Client, Frame
from tests.support.programs import open_beacon, wait_end
from tests.support.projects import Project, says, shell
from tests.support.repos import RepoBuilder

pytestmark = pytest.mark.slow

KEY = "s1"
HANGS = {"hang": True}
Herd = Callable[..., Awaitable[str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    monkeypatch.chdir(project.repo.root)
    return project


@pytest.fixture
def herd(project: Project, capfd: pytest.CaptureFixture[str]) -> Herd:
    """Gives `pinata herd` what a person types, and returns what it prints."""

    async def typed(*words: str, **environment: str) -> str:
        given = parse(["herd", *words])
        assert await COMMANDS["herd"](given, project.env | environment) == 0
        return capfd.readouterr().out

    return typed


def define(project: Project, name: str, *turns: dict[str, Any], **more: object) -> None:
    context = app.build_context(project.env, project.repo.root, project.recorder)
    assert context.agent_dir is not None
    define_in(context.agent_dir, name, {"*": list(turns)}, **more)


@asynccontextmanager
async def hosted(project: Project, key: str = KEY) -> AsyncIterator[None]:
    session = Session.of(key, project.env)
    traffic = app.new_traffic()
    face = HostFace(session, project.env, traffic)
    setting = Setting(project.env, "1.2.3", (), traffic, face.board, face.open_herd)
    with trio.fail_after(60):
        async with open_host(session, setting, face.works_with):
            yield


@asynccontextmanager
async def attached(
    project: Project, key: str = KEY, *, cwd: Path | None = None
) -> AsyncIterator[Client]:
    """Have the session's program there, which owns agents and is told nothing."""
    first = {"type": "hello", "v": 1, "role": "session", "session": key}
    where = str(cwd or project.repo.root)
    attachment = await attach(Session.of(key, project.env), {}, first | {"cwd": where})
    async with attachment.stream as stream:
        client = Client(stream, attachment.heard)
        await client.expect("welcome")
        yield client


async def delegate(client: Client, definition: str, label: str) -> Frame:
    arguments = {"definition": definition, "label": label, "task": "Begin."}
    await client.send(type="call", id=1, tool="agent_delegate", arguments=arguments)
    frame = await client.expect("result")
    assert frame["answer"]["ok"], frame
    return frame


async def refused(typed: Awaitable[str]) -> tuple[int, str]:
    """Return the exit code of a command that is refused, and why."""
    with pytest.raises(PinataError) as caught:
        await typed
    assert "\n" not in str(caught.value)
    return cli.exit_code(caught.value), str(caught.value)


def let_die(project: Project) -> None:
    """Have all agents be of a process that is dead, and not of this one."""
    folder = Path(project.env["HOME"]) / ".pi" / "agent" / "pinata" / "runtime" / "mailboxes-v4"
    for path in folder.glob("*/state.json"):
        state = json.loads(path.read_text())
        state["proof"]["host"]["start_ticks"] -= 1
        path.write_text(json.dumps(state))


async def until(herd: Herd, expected: str) -> None:
    while expected not in await herd("list"):
        await trio.lowlevel.checkpoint()


async def test_nobody_has_agents_where_none_were_started(herd: Herd) -> None:
    assert await herd("list") == f"no agents work in {Path.cwd()}\n"
    nobody = {"workspace": str(Path.cwd()), "sessions": [], "unreadable": []}
    assert json.loads(await herd("list", "--json")) == nobody
    assert await refused(herd("inspect", "eye")) == (
        2,
        f"no agent is called 'eye' in {Path.cwd()}; there are none",
    )


async def test_agents_of_a_session_that_is_there_are_seen_corrected_answered_and_closed(
    project: Project, herd: Herd
) -> None:
    define(project, "asker", says("ask_owner", question="One or two?"), HANGS)
    define(project, "idler", HANGS)
    async with hosted(project), attached(project) as client:
        await delegate(client, "asker", "mouth")
        await delegate(client, "idler", "hand")
        await until(herd, "! mouth: asker, asks")
        listed = await herd("list")
        assert listed.startswith("session s1\n")
        assert "  hand: idler, working; can be told to " in listed
        (session,) = json.loads(await herd("list", "--json"))["sessions"]
        assert [agent["agent"] for agent in session["agents"]] == ["hand", "mouth"]
        assert "ask_owner" in await herd("inspect", "mouth")
        assert "Begin." in await herd("transcript", "mouth")
        assert json.loads(await herd("inspect", "mouth", "--json"))["ok"]
        code, why = await refused(herd("steer", "mouth", "Hurry."))
        assert code == 4, why
        assert await herd("reply", "mouth", "Two.") == "mouth has taken it\n"
        assert await herd("steer", "hand", "Hurry.") == "hand has taken it\n"
        assert (await refused(herd("steer", "hand", " ")))[0] == 2
        assert (await refused(herd("steer", "hand", "So.", "--file", "none.txt")))[0] == 2
        assert await herd("steer", "hand", "So.", "--file", "a.txt") == "hand has taken it\n"
        until_then = await herd("transcript", "mouth")
        assert "Two." in until_then
        for label in ("hand", "mouth"):
            assert await herd("close", label) == f"{label} is closed\n"
        assert await herd("list") == f"no agents work in {Path.cwd()}\n"


async def test_agent_of_an_agent_is_spoken_to_as_its_owner_would(
    project: Project, herd: Herd
) -> None:
    define(project, "idler", HANGS)
    starts = says("agent_delegate", definition="idler", label="child", task="Wait.")
    define(project, "boss", starts, {"text": "I wait."}, agents=["idler"])
    async with hosted(project), attached(project) as client:
        await delegate(client, "boss", "boss")
        await until(herd, "child (of boss): idler, working")
        assert await herd("steer", "child", "Hurry.") == "child has taken it\n"
        assert "Wait." in await herd("transcript", "child")
        assert json.loads(await herd("inspect", "child", "--json"))["ok"]
        assert await herd("close", "child") == "child is closed\n"
        await until(herd, "boss: boss, settling")


async def test_what_is_left_of_agents_without_a_host_is_seen_read_and_closed(
    project: Project, herd: Herd
) -> None:
    async with open_herd_host(project, KEY) as host:
        host.define("scout", HANGS)
        await host.delegate("scout", "eye", "Look around.")
        await host.until({"eye": "working"})
    let_die(project)
    listed = await herd("list")
    assert "eye: scout, lost; can be told to" in listed
    assert "Look around." in await herd("transcript", "eye")
    code, why = await refused(herd("steer", "eye", "Hurry."))
    assert code == 4, why
    assert (await refused(herd("inspect", "eye")))[0] == 4
    code, why = await refused(herd("inspect", "ear"))
    assert (code, why.endswith("; there is eye")) == (2, True)
    assert await herd("close", "eye") == "eye is closed\n"
    assert await herd("list") == f"no agents work in {Path.cwd()}\n"


async def delegate_from(host: HerdHost, cwd: Path, label: str) -> None:
    """Have the session start an agent while it stands in another folder."""
    owner = await host.herd.owner(host.session, Place(cwd, None))
    context = replace(host.context, cwd=cwd, herd=owner)
    arguments = {"definition": "scout", "label": label, "task": f"Look after {label}."}
    answer = await app.call_for_session(context, "agent_delegate", arguments)
    assert answer["ok"], answer


async def until_all(host: HerdHost, count: int) -> None:
    while list((await host.agents()).values()) != ["working"] * count:
        await trio.lowlevel.checkpoint()


async def test_agents_that_a_session_started_elsewhere_are_reached_where_they_are_listed(
    project: Project, herd: Herd, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with open_herd_host(project, KEY) as host:
        host.define("scout", HANGS)
        await host.delegate("scout", "eye")
        await delegate_from(host, elsewhere, "far")
        await until_all(host, 2)
    let_die(project)
    listed = await herd("list")
    assert f"far: scout, lost; can be told to transcript, close; started in {elsewhere}\n" in listed
    assert "eye: scout, lost; can be told to transcript, close\n" in listed
    assert "Look after far." in await herd("transcript", "far")
    assert await herd("close", "far") == "far is closed\n"
    assert await herd("close", "eye") == "eye is closed\n"


async def test_agents_started_elsewhere_are_reached_while_their_host_lives(
    project: Project, herd: Herd, tmp_path: Path
) -> None:
    define(project, "asker", says("ask_owner", question="One or two?"), HANGS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with hosted(project):
        async with attached(project, cwd=elsewhere) as client:
            await delegate(client, "asker", "far")
        async with attached(project) as client:
            await delegate(client, "asker", "eye")
        await until(herd, "! eye: asker, asks")
        await until(herd, "! far: asker, asks")
        assert f"; started in {elsewhere}\n" in await herd("list")
        assert "ask_owner" in await herd("inspect", "far")
        assert await herd("reply", "far", "Two.") == "far has taken it\n"
        assert await herd("steer", "far", "Hurry.") == "far has taken it\n"
        assert "Two." in await herd("transcript", "far")
        assert await herd("close", "far") == "far is closed\n"
        assert await herd("close", "eye") == "eye is closed\n"


async def test_agents_of_an_agent_that_is_gone_are_reached_while_the_host_of_the_session_lives(
    project: Project, herd: Herd
) -> None:
    starts = says("agent_delegate", definition="scout", label="child", task="Wait.")
    async with open_herd_host(project, KEY) as host:
        host.define("scout", HANGS)
        host.define("boss", starts, HANGS, agents=["scout"])
        await host.delegate("boss", "boss")
        await host.until({"boss": "working", "child": "working"})
    let_die(project)
    async with hosted(project):
        assert "child (of boss): scout, lost" in await herd("list")
        assert "Wait." in await herd("transcript", "child")
        assert (await refused(herd("steer", "child", "Go.")))[0] == 4
        assert await herd("close", "child") == "child is closed\n"
        assert await herd("close", "boss") == "boss is closed\n"


async def test_agents_are_reached_after_their_workspace_got_another_name(
    project: Project, herd: Herd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, below = tmp_path / "plain", tmp_path / "plain" / "below"
    below.mkdir(parents=True)
    within = RepoBuilder.create(plain / "within").root
    for key, place, label in (("s1", below, "eye"), ("s2", within, "ear")):
        async with open_herd_host(project, key) as host:
            host.define("scout", HANGS)
            await delegate_from(host, place, label)
            await until_all(host, 1)
    let_die(project)
    (RepoBuilder.create(tmp_path / "made").root / ".git").rename(plain / ".git")
    monkeypatch.chdir(plain)
    listed = await herd("list")
    assert f"eye: scout, lost; can be told to transcript, close; started in {below}\n" in listed
    assert "Look after eye." in await herd("transcript", "eye")
    assert await herd("close", "eye") == "eye is closed\n"
    # What is within another repository is not here, and is reached all the same.
    assert "ear" not in listed
    assert await herd("close", "ear", "--in", "within") == "ear is closed\n"


async def test_agents_of_one_label_are_told_apart_by_where_they_were_started(
    project: Project, herd: Herd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / name for name in ("left", "right", "middle")]
    for number, place in enumerate(places[:2]):
        place.mkdir()
        async with open_herd_host(project, f"s{number}") as host:
            host.define("scout", HANGS)
            await host.delegate("scout", f"eye-{number}")
            await delegate_from(host, place, "far")
            await until_all(host, 2)
    let_die(project)
    code, why = await refused(herd("transcript", "far"))
    left, right, _ = places
    assert (code, why.endswith(f"in {left} and in {right}: say which with --in")) == (2, True)
    assert "Look after far." in await herd("transcript", "far", "--in", str(left))
    assert await herd("close", "far", "--in", "../left") == "far is closed\n"
    code, why = await refused(herd("close", "far", "--in", str(left)))
    assert (code, f"in {left}; there are none" in why) == (2, True)
    # The other one is meant now, and from where it was started it always was.
    monkeypatch.chdir(right)
    assert await herd("close", "far") == "far is closed\n"


async def test_mailbox_that_cannot_be_read_is_named_and_can_be_set_aside(
    project: Project, herd: Herd
) -> None:
    async with open_herd_host(project, KEY) as host:
        host.define("boss", HANGS, agents=["boss"])
        await host.delegate("boss", "boss")
        await host.delegate("boss", "odd")
        await until_all(host, 2)
        (odd,) = [box for box in host.mailboxes if b'"label":"odd"' in state_of(box)]
    let_die(project)
    (odd / "state.json").write_bytes(b"{")
    for request in odd.glob("request-*.json"):
        request.unlink()
    listed = await herd("list")
    assert f"? mailbox {odd.name}: the state is damaged" in listed
    assert f"`pinata herd set-aside {odd.name}`" in listed
    (told,) = json.loads(await herd("list", "--json"))["unreadable"]
    assert told["folder"] == odd.name
    code, why = await refused(herd("close", "boss"))
    assert (code, odd.name in why, "set-aside" in why) == (4, True, True)
    for words, expected in (
        (("set-aside", ".."), 2),
        (("set-aside", "a" * 32), 4),
    ):
        assert (await refused(herd(*words)))[0] == expected
    with pytest.raises(ConflictError, match="PINATA_AGENT=1"):
        await herd("set-aside", odd.name, PINATA_AGENT="1")
    said = await herd("set-aside", odd.name)
    kept = odd.parent.parent.parent / "set-aside" / odd.name
    assert said == f"the mailbox {odd.name} is set aside, as it was: {kept}\n"
    assert (kept / "state.json").read_bytes() == b"{"
    assert await herd("close", "boss") == "boss is closed\n"
    assert "?" not in await herd("list")


def state_of(box: Path) -> bytes:
    return (box / "state.json").read_bytes()


async def test_agent_may_look_and_change_nothing(project: Project, herd: Herd) -> None:
    async with open_herd_host(project, KEY) as host:
        host.define("scout", HANGS)
        await host.delegate("scout", "eye", "Look around.")
    let_die(project)
    mark = {"PINATA_AGENT": "1"}
    assert "eye" in await herd("list", **mark)
    assert "Look around." in await herd("transcript", "eye", **mark)
    for words in (("steer", "eye", "Go."), ("reply", "eye", "Go."), ("close", "eye")):
        code, why = await refused(herd(*words, **mark))
        assert (code, "PINATA_AGENT=1" in why) == (4, True)
    assert "eye" in await herd("list")


def shown(**changed: object) -> str:
    """Return what `pinata herd config` prints when just that is not the default."""
    defaults = {
        "contextRetirement": "true",
        "inlineAttachmentLimitBytes": 131_072,
        "mailboxPayloadLimitBytes": 131_072,
        "spawnPlacement": "subtree",
    }
    return "".join(f"{key}: {value}\n" for key, value in (defaults | changed).items())


def stated(file: str) -> object:
    return json.loads(Path(file).read_bytes())


async def test_settings_are_shown_set_and_taken_back(project: Project, herd: Herd) -> None:
    assert await herd("config") == shown()
    assert await herd("config", "contextRetirement", "false") == shown(contextRetirement="false")
    changed = shown(contextRetirement="false", spawnPlacement="tab")
    assert await herd("config", "spawnPlacement", "tab") == changed
    assert await herd("config", PINATA_AGENT="1") == changed
    assert await herd("config", "contextRetirement", "default") == shown(spawnPlacement="tab")
    answer = json.loads(await herd("config", "mailboxPayloadLimitBytes", "1024", "--json"))
    assert answer["settings"]["mailboxPayloadLimitBytes"] == 1024
    assert stated(answer["file"]) == {"mailboxPayloadLimitBytes": 1024, "spawnPlacement": "tab"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("colour", "red", "colour"),
        ("colour", "default", "colour"),
        ("contextRetirement", "no", "is not true or false"),
        ("contextRetirement", "\udcff", "is not true or false"),
        ("mailboxPayloadLimitBytes", "12", "from 1,024 to 1,048,576"),
        ("spawnPlacement", "[]", "tab, subtree or split"),
    ],
)
async def test_setting_that_does_not_fit_is_refused_and_nothing_blamed_on_the_file(
    herd: Herd, key: str, value: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        await herd("config", key, value)
    assert said in str(caught.value)
    assert "config.json" not in str(caught.value)


async def test_setting_without_a_value_is_asked_for_one(herd: Herd) -> None:
    with pytest.raises(UsageError, match="contextRetirement is given no value"):
        await herd("config", "contextRetirement")


async def test_agent_changes_no_settings(herd: Herd) -> None:
    with pytest.raises(ConflictError, match="agent's"):
        await herd("config", "contextRetirement", "false", PINATA_AGENT="1")
    assert await herd("config") == shown()


async def test_session_that_cannot_be_asked_is_listed_with_the_reason_beside_the_others(
    project: Project, herd: Herd
) -> None:
    for key in ("s1", "s2"):
        async with open_herd_host(project, key) as host:
            host.define("scout", HANGS)
            await host.delegate("scout", f"eye-of-{key}")
    let_die(project)
    file = Session.of("s1", project.env).host_file
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    listed = await herd("list")
    assert f"session s1\n  {file} is damaged: " in listed
    assert "session s2\n  eye-of-s2: scout, lost" in listed
    code, why = await refused(herd("close", "eye-of-s1"))
    assert (code, why.startswith(f"{file} is damaged: ")) == (5, True)
    assert await herd("close", "eye-of-s2") == "eye-of-s2 is closed\n"


async def test_person_sends_calls_of_tools_for_agents_and_nothing_else(project: Project) -> None:
    session = Session.of(KEY, project.env)
    async with hosted(project):
        record = await find_host(session)
        assert record is not None

        @asynccontextmanager
        async def visiting(owner: str = KEY, token: str = record.token) -> AsyncIterator[Client]:
            stream = await trio.open_unix_socket(record.socket)
            async with stream:
                client = Client(stream)
                first = hello(token, "person", KEY) | {"owner": owner, "cwd": "/"}
                await client.send(**first)
                yield client

        async with visiting(token=f"{record.token}x") as client:
            assert await client.receive() is None
        for frame in ({"type": "goodbye", "reason": "quit"}, {"type": "fly"}):
            async with visiting() as client:
                await client.expect("welcome")
                await client.send(**frame)
                assert (await client.expect("refused"))["error"]
                assert await client.receive() is None
        async with visiting() as client:
            await client.expect("welcome")
            for tool in ("pinata_status", "runs", "agent_fly"):
                await client.send(type="call", id=1, tool=tool, arguments={})
                assert "no tool of managed agents" in (await client.expect("error"))["error"]
            await client.send(type="call", id=2, tool="agent_list", arguments={})
            assert (await client.expect("result"))["answer"]["ok"]
        async with visiting(owner="nobody") as client:
            await client.expect("welcome")
            await client.send(type="call", id=1, tool="agent_list", arguments={})
            assert "is not there" in (await client.expect("error"))["error"]
        # Whoever visited took nobody's place, and the session can come.
        async with attached(project):
            pass


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("invalid_request", UsageError),
        ("internal_failure", ExternalError),
        ("agent_busy", ConflictError),
        ("target_not_found", ConflictError),
    ],
)
def test_refusal_has_the_exit_code_of_its_kind(category: str, kind: type[PinataError]) -> None:
    told = refusal({"category": category, "message": "it is so", "nextAction": "do that"})
    assert (type(told), str(told)) == (kind, "it is so; do that")


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ("answer it with agent_reply", "answer it with `pinata herd reply`"),
        ("call agent_list for its diagnostic", "use `pinata herd list` for its diagnostic"),
        ("until agent_list shows it otherwise", "until `pinata herd list` shows it otherwise"),
        ("try agent_interrupt", "try agent_interrupt"),
        ("agent 'agent_close' is lost", "agent 'agent_close' is lost"),
    ],
)
def test_refusal_names_commands_and_not_tools(told: str, read: str) -> None:
    error = {"category": "agent_busy", "message": told, "nextAction": told}
    assert str(refusal(error)) == f"{read}; {read}"


async def test_list_offers_what_the_command_can_do_and_nothing_else(
    project: Project, herd: Herd
) -> None:
    define(project, "idler", HANGS)
    async with hosted(project), attached(project) as client:
        await delegate(client, "idler", "hand")
        await until(herd, "  hand: idler, working; can be told to ")
        listed = await herd("list")
        assert "steer" in listed
        assert "interrupt" not in listed


async def test_agents_of_a_host_that_was_killed_are_lost_closed_and_continued(
    project: Project,
) -> None:
    with open_beacon(project.folder) as beacon, pi_in(project) as pi:
        define(project, "runner", shell(f"echo $$ >> {beacon.path}; exec sleep 600"), HANGS)
        async with pi.attached() as bridge:
            arguments: dict[str, Any] = {"definition": "runner", "label": "eye", "task": "Look."}
            told = (await bridge.answer("agent_delegate", **arguments))["answer"]
            assert told["ok"], told
            program = await beacon.pid()
            killed = pi.host
            os.kill(killed, signal.SIGKILL)
            await wait_end(killed)
        listed = await trio.to_thread.run_sync(lambda: project.pinata("herd", "list"))
        assert (listed.returncode, "eye: runner, lost" in listed.stdout) == (0, True), listed
        steered = await trio.to_thread.run_sync(
            lambda: project.pinata("herd", "steer", "eye", "Go.", "--json")
        )
        assert steered.returncode == 4
        assert "error" in json.loads(steered.stderr)
        async with pi.attached() as bridge:
            # Nothing that the host's agents had started outlives it for longer.
            await wait_end(program)
            (agent,) = (await bridge.answer("agent_list"))["answer"]["agents"]
            assert (agent["agent"], agent["state"]) == ("eye", "lost")
            assert (await bridge.answer("agent_close", agent="eye"))["answer"]["ok"]
            again: dict[str, Any] = {"session": told["session_id"], "task": "Go on."}
            continued = (await bridge.answer("agent_continue", **again))["answer"]
            assert continued["ok"], continued
            await bridge.leave("quit")
        # The agent has its task: the host is there for it, although its session has ended.
        closed = await trio.to_thread.run_sync(lambda: project.pinata("herd", "close", "eye"))
        assert closed.stdout == "eye is closed\n"
        for host in pi.hosts_alive():
            await wait_end(host)


async def test_programs_of_an_agent_stand_on_one_line(project: Project, herd: Herd) -> None:
    define(project, "runner", shell("exec sleep 600"), HANGS)
    async with hosted(project), attached(project) as client:
        await delegate(client, "runner", "hand")
        seen = ""
        while "programs: " not in seen:
            seen = await herd("inspect", "hand")
        assert "sleep 600" in seen.splitlines()[0]
        assert await herd("close", "hand") == "hand is closed\n"
