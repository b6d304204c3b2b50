import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from agents.filetools import arguments, bash
from agents.filetools.arguments import BoundedBashArguments, decode_arguments
from agents.filetools.bash import BOUNDED_BASH
from agents.filetools.registry import TOOLS
from engine.system.identity import read_stat
from engine.system.process import ProcessExit
from tests.support.toolbox import Toolbox


async def test_both_outputs_come_back_in_the_order_in_which_they_were_written(
    box: Toolbox,
) -> None:
    text = await box.text("bash", command="echo 1; echo 2 >&2; echo 3; echo 4 >&2")
    assert text == "1\n2\n3\n4"


async def test_output_is_told_while_the_command_still_runs(box: Toolbox, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    said = trio.Event()
    heard: list[str] = []

    def update(text: str) -> None:
        heard.append(text)
        said.set()

    context = replace(box.context, update=update)
    async with trio.open_nursery() as nursery:
        arguments = {"command": f"echo one >&2; read line < {go}; echo two"}
        nursery.start_soon(TOOLS["bash"].run, context, arguments)
        await said.wait()
        assert heard == ["one\n"]
        await trio.to_thread.run_sync(go.write_text, "\n")


async def test_the_script_runs_in_the_working_directory_as_it_stands(box: Toolbox) -> None:
    text = await box.text("bash", command="pwd\ncat <<EOF\n\"$0\" '*' `echo x`\nEOF\n# end")
    assert text == f"{box.root}\n\"sh\" '*' x"


async def test_line_numbers_in_errors_are_those_of_the_script(box: Toolbox) -> None:
    fault = await box.fault("bash", command="true\nif")
    assert "sh: 2: Syntax error" in fault or "line 2: syntax error" in fault


async def test_the_environment_is_the_one_given(box: Toolbox) -> None:
    text = await replace(box, env=box.env | {"OK": "yes"}).text("bash", command="env | sort")
    names = {line.partition("=")[0] for line in text.split("\n")}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"HOME", "OK", "PATH", "TMPDIR"}


async def test_processes_carry_the_mark(box: Toolbox) -> None:
    text = await replace(box, mark="token/fix@1").text("bash", command="echo $PINATA_MARK")
    assert text == "token/fix@1"


async def test_a_non_zero_exit_is_an_error_with_the_output(box: Toolbox) -> None:
    assert await box.fault("bash", command="echo out; exit 3") == (
        "out\n\n[the command exited with code 3]"
    )


@pytest.mark.parametrize(("number", "name"), [(15, "SIGTERM"), (40, "signal 40")])
async def test_a_signal_is_named(box: Toolbox, number: int, name: str) -> None:
    assert await box.fault("bash", command=f"kill -{number} $$") == (
        f"(no output)\n\n[the command was ended by {name}]"
    )


def test_a_command_that_nothing_could_end_is_told() -> None:
    left = ProcessExit(None, None, b"", b"", overflowed=False, pipes_held=False, duration_ms=1)
    assert bash._ending(left) == ["the command could not be ended and was left alone"]


async def test_silence_is_said(box: Toolbox) -> None:
    assert await box.text("bash", command="true") == "(no output)"


async def test_of_long_output_the_last_2000_lines_are_kept(box: Toolbox) -> None:
    text = await box.text("bash", command="seq 5000")
    assert text.startswith("3001\n")
    assert "\n5000\n\n[only the last 2000 lines are shown. " in text


async def test_of_wide_output_the_last_50_kilobytes_are_kept(box: Toolbox) -> None:
    text = await box.text("bash", command="yes $(printf %01023d 0) | head -n 1000")
    assert "[only the last 50 lines are shown. " in text
    assert len(text.encode()) < 52 * 1024


async def test_a_line_that_is_not_whole_is_not_shown(box: Toolbox) -> None:
    box.put("long", "x" * 60_000 + "\nlast\n")
    assert (await box.text("bash", command="cat long")).startswith("last\n\n[only the last 1 lines")


async def test_of_one_endless_line_the_end_is_kept(box: Toolbox) -> None:
    text = await box.text("bash", command="yes ab | head -c 300000 | tr -d '\\n'; printf end")
    assert "end\n\n[only the last 51200 bytes are shown. " in text


async def test_a_time_limit_stops_the_command_and_shows_what_it_wrote(box: Toolbox) -> None:
    with trio.fail_after(20):
        fault = await box.fault("bash", command="echo begun; exec sleep 1000", timeout=0.5)
    assert fault == "begun\n\n[the command was stopped after its 0.5 seconds]"


async def test_a_child_in_the_background_ends_with_the_command(box: Toolbox) -> None:
    with trio.fail_after(20):
        text = await box.text("bash", command="sleep 1000 & echo $!")
    left = read_stat(int(text))
    assert left is None or left.is_dead


async def test_output_without_end_stops_the_command(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bash, "OUTPUT_LIMIT_BYTES", 100_000)
    with trio.fail_after(20):
        fault = await box.fault("bash", command="yes")
    assert "y\n\n[only the last 2000 lines" in fault
    assert "the command was stopped: it wrote more than 100000 bytes]" in fault


async def test_cancelling_ends_the_command_and_leaves_no_file(box: Toolbox, tmp_path: Path) -> None:
    started = box.root / "started"
    os.mkfifo(started)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: box.call("bash", command="echo $$ > started; exec sleep 1000"))
        pid = int(await trio.to_thread.run_sync(started.read_text))
        nursery.cancel_scope.cancel()
    assert read_stat(pid) is None
    assert box.names("../home") == []


async def test_what_cannot_be_run_is_an_answer(box: Toolbox, tmp_path: Path) -> None:
    assert "NUL character" in await box.fault("bash", command="echo \0")
    assert "cannot start" in await box.fault("bash", command="x" * 3_000_000)
    gone = replace(box, env=box.env | {"TMPDIR": str(tmp_path / "gone")})
    assert await gone.fault("bash", command="true") == "bash: no such file or directory"


async def test_a_process_that_holds_the_output_is_told(box: Toolbox) -> None:
    leave = "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while ! test -s pid; do :; done"
    with trio.fail_after(20):
        text = await box.text("bash", command=leave)
    os.kill(int((box.root / "pid").read_text()), signal.SIGKILL)
    assert text.startswith("(no output)\n\n[a process that it left behind still held its output")


@pytest.mark.parametrize(
    ("given", "limit_s"),
    [
        pytest.param({}, 600, id="nothing said"),
        pytest.param({"timeout": None}, 600, id="nothing"),
        pytest.param({"timeout": 7}, 7, id="less"),
        pytest.param({"timeout": 3_000}, 3_000, id="more"),
    ],
)
def test_a_bounded_shell_limits_every_command_and_keeps_a_limit_that_was_asked_for(
    given: dict[str, object], limit_s: int
) -> None:
    decoded = decode_arguments(BoundedBashArguments, {"command": "sleep 9000", **given})
    assert decoded.limit_s == limit_s


async def test_a_bounded_shell_stops_at_its_limit(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "COMMAND_LIMIT_S", 0.25)
    with trio.fail_after(20):
        answer = await BOUNDED_BASH.run(box.context, {"command": "exec sleep 1000"})
    assert answer.text == "(no output)\n\n[the command was stopped after its 0.25 seconds]"
