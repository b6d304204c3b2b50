"""Writing goes on without its reader."""

import os
import sys
from pathlib import Path

import pytest

from pinata.faces import output


def test_text_is_there_at_once_and_escaped_where_the_encoding_lacks_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "stdout"
    with path.open("w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert output.write("✓ done\n") is True
        assert path.read_bytes() == b"\\u2713 done\n"


def test_reader_that_is_gone_is_told_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor
        monkeypatch.setattr(sys, "stdout", stream)
        assert output.write("text") is False
        assert output.write("text") is False


def test_full_disk_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        output.note("a note")


def test_closed_stdout_is_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert output.write("text") is False


def test_note_is_a_line_on_stderr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    with path.open("w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        output.note("a note")
    assert path.read_text() == "a note\n"
