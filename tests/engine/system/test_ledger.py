import sys
from pathlib import Path

import pytest

from engine.core.errors import CorruptionError
from engine.system.identity import ProcessIdentity, identify, is_alive
from engine.system.ledger import keep_ledger, read_ledger, write_down
from engine.system.process import ProcessSpec, run

ONE = ProcessIdentity(7, 70, "boot")
TWO = ProcessIdentity(8, 80, "boot")


def test_processes_of_the_token_are_read_back_and_others_are_not(tmp_path: Path) -> None:
    path = tmp_path / "processes.jsonl"
    with keep_ledger("abc", path):
        write_down("abc/fix@1", ONE)
        write_down("abcd/fix@1", TWO)
        write_down("abc/git", TWO)
    write_down("abc/late", ONE)
    assert read_ledger(path) == [ONE, TWO]
    assert path.stat().st_mode & 0o777 == 0o600


def test_ledger_goes_on_where_an_earlier_process_stopped_and_skips_a_torn_line(
    tmp_path: Path,
) -> None:
    path = tmp_path / "processes.jsonl"
    with keep_ledger("abc", path):
        write_down("abc/a", ONE)
    path.write_bytes(path.read_bytes() + b'["fix", 9, 9\n[1]\n"text"\n[1, "x", 2, "b"]\n')
    with keep_ledger("abc", path):
        write_down("abc/b", TWO)
    assert read_ledger(path) == [ONE, TWO]


@pytest.mark.parametrize(
    "line",
    [
        '["x", Infinity, 1, "boot"]',
        '["x", 1, Infinity, "boot"]',
        '["x", 1' + "0" * 4200 + ', 1, "boot"]',
        '["x", 4194305, 1, "boot"]',
        '["x", 0, 1, "boot"]',
        '["x", 1, 9223372036854775808, "boot"]',
        '["x", 1, -1, "boot"]',
        '["x", true, 1, "boot"]',
        '["x", 1, 1, null]',
        "[" * 200_000,
    ],
    ids=lambda line: str(line)[:24],
)
def test_line_that_names_no_process_is_passed_over(tmp_path: Path, line: str) -> None:
    path = tmp_path / "processes.jsonl"
    with keep_ledger("abc", path):
        write_down("abc/a", ONE)
        path.write_text(path.read_text() + line + "\n")
        write_down("abc/b", TWO)
    assert read_ledger(path) == [ONE, TWO]


def test_missing_ledger_is_an_empty_one(tmp_path: Path) -> None:
    assert read_ledger(tmp_path / "none") == []


def test_link_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(CorruptionError, match="not a regular file"):
        read_ledger(tmp_path / "link")
    with pytest.raises(OSError, match="symbolic link"), keep_ledger("abc", tmp_path / "link"):
        pass


def test_full_disk_does_not_hurt_the_process_that_was_started(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with keep_ledger("abc", Path("/dev/full")):
        write_down("abc/a", ONE)
    assert "process 7 could not be written down" in caplog.text


async def test_program_that_wipes_its_environment_is_in_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "processes.jsonl"
    seen: list[ProcessIdentity | None] = []
    with keep_ledger("abc", path):
        await run(
            ProcessSpec(
                ("env", "-i", sys.executable, "-c", "pass"), tmp_path, {}, mark="abc/fix@1"
            ),
            started=lambda identity: seen.append(identify(identity.pid)),
        )
    (kept,) = read_ledger(path)
    assert [kept] == seen
    assert not is_alive(kept)
