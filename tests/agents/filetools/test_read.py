import os
import socket
from pathlib import Path

import pytest
import trio
import trio.testing

from agents.filetools import read
from tests.support.toolbox import Toolbox


async def test_a_whole_small_file_is_shown_as_it_is(box: Toolbox) -> None:
    box.put("a.txt", "one\ntwo\n")
    assert await box.text("read", path="a.txt") == "one\ntwo"


async def test_offset_and_limit_count_lines_from_one(box: Toolbox) -> None:
    box.put("a.txt", "one\ntwo\nthree\nfour")
    assert await box.text("read", path="a.txt", offset=2, limit=2) == (
        "two\nthree\n\n[lines 2 to 3 of 4 are shown; go on with offset=4]"
    )
    assert await box.text("read", path="a.txt", offset=4, limit=2) == "four"


async def test_a_long_file_is_cut_at_2000_lines_and_says_how_to_go_on(box: Toolbox) -> None:
    box.put("a.txt", "".join(f"{n}\n" for n in range(1, 5001)))
    text = await box.text("read", path="a.txt", limit=4000)
    assert text.endswith("\n2000\n\n[lines 1 to 2000 of 5000 are shown; go on with offset=2001]")
    assert (await box.text("read", path="a.txt", offset=4999)) == "4999\n5000"


async def test_wide_lines_are_cut_at_50_kilobytes_of_whole_lines(box: Toolbox) -> None:
    box.put("a.txt", ("é" * 512 + "\n") * 100)
    text = await box.text("read", path="a.txt")
    assert text.endswith("[lines 1 to 49 of 100 are shown; go on with offset=50]")
    assert len(text.encode()) < 51 * 1024


async def test_one_endless_line_is_shown_in_part_and_the_next_line_can_be_read(
    box: Toolbox,
) -> None:
    box.put("a.txt", "x" * 3_000_000 + "\nend")
    text = await box.text("read", path="a.txt")
    assert text.startswith("x" * 51_200 + "\n\n[line 1 is too long; only its first 51200 bytes")
    assert text.endswith("lines 1 to 1 of 2 are shown; go on with offset=2]")
    assert await box.text("read", path="a.txt", offset=2) == "end"


async def test_an_offset_beyond_the_end_says_how_long_the_file_is(box: Toolbox) -> None:
    box.put("a.txt", "one\ntwo\n")
    assert '"a.txt" has 2 lines' in await box.fault("read", path="a.txt", offset=3)


async def test_an_empty_file_is_said_to_be_empty(box: Toolbox) -> None:
    box.put("a.txt", "")
    assert await box.text("read", path="a.txt") == "[the file is empty]"


async def test_carriage_returns_at_line_ends_are_not_shown(box: Toolbox) -> None:
    box.put("a.txt", b"one\r\ntwo\r\n")
    assert await box.text("read", path="a.txt") == "one\ntwo"


async def test_a_byte_order_mark_is_not_shown(box: Toolbox) -> None:
    box.put("a.txt", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert await box.text("read", path="a.txt") == "one\n\ufefftwo"


async def test_text_that_is_not_utf8_is_shown_with_a_warning(box: Toolbox) -> None:
    box.put("a.txt", b"caf\xe9\n")
    assert await box.text("read", path="a.txt") == (
        "caf\ufffd\n\n[what is not UTF-8 is shown as \ufffd]"
    )


async def test_a_binary_file_is_named_as_such(box: Toolbox) -> None:
    box.put("a.png", b"\x89PNG\0\0")
    assert '"a.png" is a binary file' in await box.fault("read", path="a.png")


async def test_a_file_longer_than_can_be_scanned_is_refused(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "SCAN_LIMIT_BYTES", 100)
    box.put("a.txt", "x\n" * 51)
    assert '"a.txt" is larger than 100 bytes' in await box.fault("read", path="a.txt")


async def test_a_missing_file_a_directory_and_a_file_as_a_parent_are_told_apart(
    box: Toolbox,
) -> None:
    box.put("src/a.txt", "")
    assert 'there is no "src/b"' in await box.fault("read", path="src/b")
    assert '"src" is a directory; ls lists it' in await box.fault("read", path="src")
    assert "no directory" in await box.fault("read", path="src/a.txt/b")


async def test_a_pipe_a_socket_and_a_device_are_never_opened(box: Toolbox) -> None:
    os.mkfifo(box.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(box.root / "sock"))
    (box.root / "link").symlink_to("/dev/zero")
    with trio.fail_after(10):
        assert "a named pipe and is not opened" in await box.fault("read", path="pipe")
        assert "a socket and is not opened" in await box.fault("read", path="sock")
        assert "a device and is not opened" in await box.fault("read", path="/dev/zero")
        assert "a device and is not opened" in await box.fault("read", path="link")


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/self/root/proc/self/environ"])
async def test_the_environment_of_this_process_cannot_be_read(box: Toolbox, path: str) -> None:
    assert "a view of a running process" in await box.fault("read", path=path)


async def test_files_outside_of_the_working_directory_can_be_read(
    box: Toolbox, tmp_path: Path
) -> None:
    (tmp_path / "home/notes").write_text("hello")
    (box.root / "link").symlink_to(tmp_path / "home/notes")
    for path in ("../home/notes", str(tmp_path / "home/notes"), "~/notes", "link", "@~/notes"):
        assert await box.text("read", path=path) == "hello"


async def test_a_quoted_name_from_an_answer_can_be_read(box: Toolbox) -> None:
    box.put(os.fsdecode(b"n\xff\n"), "odd")
    assert await box.text("ls") == '.git/\n"n\\377\\n"'
    assert await box.text("read", path='"n\\377\\n"') == "odd"


@pytest.mark.parametrize("start", ["x" * 9_000, "x\n" * 9_000], ids=["one line", "many lines"])
async def test_cancelling_ends_a_long_scan(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setattr(read, "SCAN_LIMIT_BYTES", 1 << 40)
    # Its rest is a hole, so it is as large as it needs to be to keep a reader busy.
    os.truncate(box.put("a.txt", start), 1 << 37)
    answers: list[str] = []

    async def call() -> None:
        answers.append(await box.text("read", path="a.txt"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert answers == []
