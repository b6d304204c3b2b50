import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent

import pytest
import trio

from agents import sandbox_process
from agents.budget import BudgetKind
from agents.codemode import MAX_CODE_CHARS, codemode_tool
from agents.filetools.answer import BYTE_LIMIT, LINE_LIMIT
from agents.filetools.tool import ToolAnswer
from agents.loadout import CODEMODE
from agents.sandbox import MEMORY_LIMIT_BYTES, RUN_LIMIT_S, ScriptFailed
from agents.sandbox_process import SandboxProcess
from engine.core.spec import Kind
from engine.system.identity import identify, is_alive
from engine.system.ledger import keep_ledger, read_ledger
from engine.system.strays import end_recorded, end_unclaimed
from tests.support.children import children
from tests.support.programs import Beacon, open_beacon
from tests.support.scripts import Scripter


@pytest.fixture
def scout(tmp_path: Path) -> Scripter:
    return Scripter.create(tmp_path)


@pytest.fixture
def beacon(tmp_path: Path) -> Iterator[Beacon]:
    with open_beacon(tmp_path) as opened:
        yield opened


@pytest.fixture
def builder(tmp_path: Path) -> Scripter:
    return Scripter.create(tmp_path, Kind.WRITER, ("src",))


async def test_a_script_calls_tools_by_name_and_its_last_value_is_the_answer(
    scout: Scripter,
) -> None:
    scout.shop.put("a.txt", "hello\n")
    scout.shop.put("docs/b.txt", "world\n")
    script = """
        found = {}
        for path in find(pattern="**/*.txt").splitlines():
            found[path] = read(path=path, offset=1)
        found
    """
    assert await scout.text(script) == "{'a.txt': 'hello', 'docs/b.txt': 'world'}"
    assert scout.calls == ["find", "read", "read"]


@pytest.mark.parametrize(
    "call",
    ['read("a.txt")', '[each("a.txt") for each in [read]][0]', "eval(\"read(path='a.txt')\")"],
)
async def test_a_call_may_leave_out_the_obvious_name(scout: Scripter, call: str) -> None:
    scout.shop.put("a.txt", "hello\n")
    assert await scout.text(call) == "hello"


async def test_the_first_argument_of_a_tool_that_needs_none_may_be_given_alone(
    scout: Scripter,
) -> None:
    scout.shop.put("docs/b.txt", "world\n")
    assert await scout.text('ls("docs") + ls().splitlines()[-1]') == "b.txtdocs/"


async def test_what_a_writer_writes_in_a_script_is_written(builder: Scripter) -> None:
    script = """
        write("src/new.txt", "one\\n")
        edit("src/new.txt", [{"oldText": "one", "newText": "two"}])
        bash("cat src/new.txt")
    """
    builder.shop.put("src/old.txt", "")
    assert await builder.text(script) == "two"
    assert builder.calls == ["write", "edit", "bash"]


async def test_prints_come_in_order_and_before_the_last_value(scout: Scripter) -> None:
    scout.shop.put("a.txt", "hello\n")
    script = """
        import sys
        print("one", end="")
        print(" two", read("a.txt"))
        print("three", file=sys.stderr)
        print("four", end="")
        [5, {"six": None}]
    """
    assert await scout.text(script) == "one two hello\nthree\nfour\n[5, {'six': None}]"


@pytest.mark.parametrize("code", ["", "None", "x = 3", "print('')"])
async def test_a_script_that_says_nothing_is_told_so(scout: Scripter, code: str) -> None:
    assert await scout.text(code) == "(no output)"


async def test_scripts_remember_nothing_of_each_other(scout: Scripter) -> None:
    await scout.text("x = 3")
    assert "name 'x' is not defined" in await scout.fault("x")


async def test_a_failed_call_is_an_exception_that_the_script_can_catch(scout: Scripter) -> None:
    script = """
        try:
            read("nope.txt")
        except RuntimeError as error:
            print("caught:", error)
    """
    assert (await scout.text(script)).startswith('caught: read: there is no "nope.txt"')


@pytest.mark.parametrize(
    ("kind", "call", "refusal"),
    [
        (Kind.READER, 'bash(command="touch made")', '"bash" is not yours to call; yours are: read'),
        (Kind.READER, 'write("made", "x")', '"write" is not yours to call'),
        (Kind.WRITER, 'write("made", "x")', '"made" is not owned by this task'),
        (
            Kind.WRITER,
            'write(path="../made", content="x")',
            "lies outside of the working directory",
        ),
    ],
)
async def test_what_the_guard_refuses_is_refused_inside_the_script(
    tmp_path: Path, kind: Kind, call: str, refusal: str
) -> None:
    scripter = Scripter.create(tmp_path, kind, ("src",) if kind is Kind.WRITER else ())
    said = await scripter.text(
        f"try:\n    {call}\nexcept Exception as error:\n    print('refused', error)"
    )
    assert said.startswith("refused")
    assert refusal.strip('"') in said
    assert len(scripter.calls) == 1
    assert scripter.shop.names() == []
    assert not (tmp_path / "made").exists()


async def test_a_script_does_not_start_another(scout: Scripter) -> None:
    assert "a script cannot start another one" in await scout.fault('codemode(code="1")')


async def test_a_script_without_a_way_to_call_is_refused(scout: Scripter) -> None:
    answer = await scout.box.call(CODEMODE, {"code": "1"})
    assert answer == ToolAnswer("a script cannot start another one", is_error=True)


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ('read("a.txt", 3)', "only path can be given without a name; name the others"),
        ('read("a.txt", path="b.txt")', "path is given twice"),
        ("read(path={1})", "path: "),
        ("x = []\nfor _ in range(100_000):\n    x = [x]\nread(x)", "path: [[[[[["),
        ("read()", "path is missing"),
        ('read("a.txt", lines=3)', "unknown field"),
    ],
)
async def test_arguments_that_cannot_be_taken_are_explained(
    scout: Scripter, call: str, fault: str
) -> None:
    assert fault in await scout.fault(call)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("\nx = ", "failed in line 2 (x =): SyntaxError: Expected an expression"),
        ("def f():\n    return 1 / 0\nf()", "in line 2 (return 1 / 0): ZeroDivisionError"),
        ("raise ValueError('boo')", "in line 1 (raise ValueError('boo')): ValueError: boo"),
        ("raise NotImplementedError('boo')", ": NotImplementedError: boo]"),
        ("def f():\n    yield 1", "in line 2 (yield 1): NotImplementedError: "),
        ("def f():\n    yield 1", "scripts run in a part of Python"),
        ("list(map(read, ['a']))", "not by map, sorted or a decorator"),
        ("await read('a.txt')", "'str' object can't be awaited"),
        ("nothing", "NameError: name 'nothing' is not defined"),
        ("nothing()", "the tools are read, grep, find, ls]"),
        ("import string", "there is no module 'string' here; there are asyncio, base64"),
        ("(" * 50_000, "Source is too deeply nested"),
        ("raise SystemExit(3)", "the script failed: "),
    ],
)
async def test_errors_come_back_as_a_sentence_with_the_line(
    scout: Scripter, code: str, said: str
) -> None:
    scout.shop.put("a.txt", "hello\n")
    assert said in await scout.fault(code)


async def test_what_was_printed_before_an_error_is_shown(scout: Scripter) -> None:
    assert (await scout.fault("print('so far')\n1 / 0")).startswith("so far\n\n[the script failed")


@pytest.mark.parametrize(
    "code",
    [
        'open("{secret}").read()',
        'import pathlib\npathlib.Path("{secret}").read_text()',
        'import os\nos.listdir("{folder}")',
        "import os\nos.environ",
        'import os\nos.getenv("HOME")',
        'import os\nos.system("cat {secret}")',
        '__import__("subprocess")',
        "import subprocess",
        "import socket",
        "import ctypes",
        "().__class__.__base__.__subclasses__()",
        "read.__globals__",
        "print.__self__",
        'getattr(read, "__globals__")',
        'exec("import subprocess")',
        'open("{folder}/made", "w")',
        "import time\ntime.sleep(3600)",
        "input()",
    ],
)
async def test_a_hostile_script_reaches_nothing(scout: Scripter, tmp_path: Path, code: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    said = await scout.fault(
        code.replace("{secret}", str(secret)).replace("{folder}", str(tmp_path))
    )
    assert "password" not in said
    assert not (tmp_path / "made").exists()
    assert scout.calls == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ('"x" * (1 << 30)', "MemoryError"),
        ('x = []\nwhile True:\n    x.append("x" * 100_000)', f"{MEMORY_LIMIT_BYTES >> 20} MB"),
        ("[None] * 100_000_000", "MemoryError"),
        ("10 ** 10 ** 9", "MemoryError"),
        ("def f():\n    f()\nf()", "RecursionError"),
        (
            "while True:\n    try:\n        submit_result()\n    except Exception:\n        pass",
            "after 1,000 calls",
        ),
        ("while True:\n    try:\n        open('x')\n    except Exception:\n        pass", "1,000"),
    ],
)
async def test_a_script_that_takes_too_much_is_stopped(
    scout: Scripter, code: str, said: str
) -> None:
    assert said in await scout.fault(code)


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    pass",
        "while 1:\n  try:\n    while 1:\n      pass\n  except BaseException:\n    pass",
        "while True:\n    print('x' * 1000)",
        # One operation that takes long: the sandbox cannot look at the clock meanwhile.
        pytest.param("x = 7\nwhile True:\n    x = x * x", marks=pytest.mark.slow),
    ],
)
async def test_an_endless_script_is_stopped_at_its_limit(
    scout: Scripter, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(sandbox_process, "RUN_LIMIT_S", 0.05)
    monkeypatch.setattr(sandbox_process, "GRACE_S", 0.3)
    assert "it computed for more than 0.05 seconds" in await scout.fault(code)


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("for i in range(100_000):\n    print(i)", f"the last {LINE_LIMIT} lines are shown"),
        ("for i in range(100_000):\n    print(i, 'x' * 40)", "lines are shown"),
        ("print('x' * 20_000_000)", f"only the last {BYTE_LIMIT} bytes are shown"),
        ("'x' * 20_000_000 + '99999'", f"only the last {BYTE_LIMIT} bytes are shown"),
    ],
)
async def test_giant_output_is_cut_to_its_end_as_that_of_bash(
    scout: Scripter, code: str, note: str
) -> None:
    said = await scout.text(code)
    assert len(said) < BYTE_LIMIT + 200
    assert note in said
    assert "99999" in said or "xxxxx" in said


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("x = []\nx.append(x)\nx", "['[...]']"),
        ("x = []\nfor _ in range(100_000):\n    x = [x]\nx", "(a list that cannot be shown: "),
        ("9 ** 9999", "(a int that cannot be shown: "),
        ("read", "read"),
        ("class A:\n    pass\nA()", "A"),
        ('"\\ud800"', "\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_odd_values_are_shown_somehow(scout: Scripter, code: str, shown: str) -> None:
    assert shown in await scout.text(code)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "codemode: code is missing"),
        ({"code": 3}, "codemode: code: 3 is not text"),
        ({"code": "#" * (MAX_CODE_CHARS + 1)}, "longer than 100,000 characters; send it in parts"),
    ],
)
async def test_a_script_that_is_none_is_refused(
    scout: Scripter, arguments: Mapping[str, object], fault: str
) -> None:
    answer = await scout.box.call(CODEMODE, arguments, scout.nested)
    assert isinstance(answer, ToolAnswer)
    assert answer.is_error
    assert fault in answer.text


async def test_an_exhausted_budget_ends_the_script_and_is_let_through(scout: Scripter) -> None:
    scout.calls_left = 2
    script = """
        for _ in range(3):
            try:
                ls()
            except BaseException:
                pass
    """
    forbidden = await scout.run_with(scout.nested, dedent(script))
    assert forbidden is BudgetKind.TOOL_CALLS
    assert scout.calls == ["ls", "ls"]
    assert children() == []


async def test_an_answer_that_no_file_could_hold_reaches_the_script(scout: Scripter) -> None:
    async def broken(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        return ToolAnswer("half \ud800")

    answer = await scout.box.call(CODEMODE, {"code": 'read("a")'}, broken)
    assert answer == ToolAnswer("half \N{REPLACEMENT CHARACTER}")


async def test_cancelling_ends_an_endless_script_at_once(scout: Scripter) -> None:
    async def announce(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        started.set()
        return ToolAnswer("")

    started = trio.Event()
    began = 0.0
    async with trio.open_nursery() as nursery:
        code = "ls()\nwhile True:\n    pass"
        nursery.start_soon(scout.box.call, CODEMODE, {"code": code}, announce)
        await started.wait()
        # The loop's thread is free while the script computes.
        await trio.lowlevel.checkpoint()
        began = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - began < 5
    assert children() == []


async def test_cancelling_while_a_tool_works_ends_tool_and_sandbox(scout: Scripter) -> None:
    async def wait(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        started.set()
        await trio.sleep_forever()

    started = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scout.box.call, CODEMODE, {"code": "ls()"}, wait)
        await started.wait()
        assert len(children()) == 1
        nursery.cancel_scope.cancel()
    assert children() == []


async def test_cancelling_before_the_sandbox_stands_ends_it_too(scout: Scripter) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await scout.run("while True:\n    pass")
    assert scope.cancelled_caught
    assert children() == []


async def test_a_sandbox_that_was_killed_before_it_stood_runs_nothing() -> None:
    sandbox = SandboxProcess(("ls",), (), lambda _: None)
    try:
        await trio.to_thread.run_sync(sandbox.close)
        await trio.to_thread.run_sync(sandbox.open)
        step = await trio.to_thread.run_sync(sandbox.start, "ls()")
        assert isinstance(step, ScriptFailed)
        assert "the sandbox broke down" in step.message
    finally:
        await trio.to_thread.run_sync(sandbox.close)
    assert children() == []


async def test_more_scripts_than_may_compute_at_once_all_end(scout: Scripter) -> None:
    said: list[str] = []

    async def run(number: int) -> None:
        said.append(await scout.text(f"ls()\nsum(range(10_000))\n{number}"))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(run, number)
    assert sorted(map(int, said)) == list(range(20))
    assert children() == []


@pytest.mark.slow
def test_the_library_is_loaded_by_the_first_script_only() -> None:
    code = "import sys, pinata.work.agent\nassert 'pydantic_monty' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_the_search_for_strays_spares_a_script_that_is_running(scout: Scripter) -> None:
    async def look(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        for _ in range(3):
            await end_unclaimed()
        return ToolAnswer("still here")

    answer = await scout.box.call(CODEMODE, {"code": "ls()"}, look)
    assert answer == ToolAnswer("still here")
    assert children() == []


async def test_a_sandbox_without_an_owner_computes_for_some_seconds_at_most(
    scout: Scripter,
) -> None:
    async def look(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        limit_s, _ = resource.prlimit(children()[0], resource.RLIMIT_CPU)
        return ToolAnswer(str(limit_s))

    answer = await scout.box.call(CODEMODE, {"code": "ls()"}, look)
    assert isinstance(answer, ToolAnswer)
    assert RUN_LIMIT_S < int(answer.text) <= RUN_LIMIT_S + 3


async def test_a_sandbox_that_dies_is_reported(scout: Scripter) -> None:
    async def kill(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        os.kill(children()[0], 9)
        return ToolAnswer("")

    answer = await scout.box.call(CODEMODE, {"code": "ls()"}, kill)
    assert isinstance(answer, ToolAnswer)
    assert answer.is_error
    assert "the sandbox broke down" in answer.text


@pytest.mark.parametrize("binary", ["/nowhere/monty", "/dev/null", "/bin/false"])
async def test_a_sandbox_that_does_not_start_is_a_sentence(
    scout: Scripter, binary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONTY_BIN", binary)
    said = await scout.fault("1")
    assert "scripts cannot be run here; call your tools directly: " in said
    assert children() == []


@pytest.mark.slow
async def test_a_sandbox_whose_owner_was_killed_is_ended_by_who_takes_over(
    tmp_path: Path, beacon: Beacon
) -> None:
    # It shares session and group with its owner, and those with others who must live on.
    ledger = tmp_path / "ledger"
    owner = f"""
import os, sys, trio
from pathlib import Path
from agents.codemode import codemode_tool
from agents.filetools.tool import ToolAnswer
from engine.system.ledger import keep_ledger

async def tell(name, arguments):
    with open({str(beacon.path)!r}, "w") as file:
        print(os.getpid(), file=file)
    return ToolAnswer("")

async def main():
    tool = codemode_tool((), "token/fix@1")
    await tool.run({{"code": "ls()\\nwhile True:\\n    pass"}}, tell)

with keep_ledger("token", Path({str(ledger)!r})):
    trio.run(main)
"""
    shell = ["sh", "-c", '"$@" & wait; exec sleep 1000', "sh", sys.executable, "-c", owner]
    group = await trio.to_thread.run_sync(lambda: subprocess.Popen(shell, start_new_session=True))
    try:
        os.kill(await beacon.pid(), 9)
        (sandbox,) = read_ledger(ledger)
        assert is_alive(sandbox)
        assert await end_recorded([sandbox]) == [sandbox]
        assert not is_alive(sandbox)
        assert group.poll() is None
    finally:
        os.killpg(group.pid, 9)
        await trio.to_thread.run_sync(group.wait)


async def test_the_sandbox_is_written_down_under_the_mark_of_its_agent(tmp_path: Path) -> None:
    async def look(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        (pid,) = children()
        found.append(identify(pid))
        return ToolAnswer("")

    found: list[object] = []
    tool = codemode_tool((), "token/fix@1")
    with keep_ledger("token", tmp_path / "ledger"):
        await tool.run({"code": "ls()"}, look)
    assert read_ledger(tmp_path / "ledger") == found


def test_the_description_names_the_functions_and_depends_on_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    shown = [Scripter.create(tmp_path / name).box.declarations[-1] for name in ("a", "b")]
    assert shown[0] == shown[1]
    assert "read(path, offset=None, limit=None), grep(pattern, path=None," in shown[0].description
