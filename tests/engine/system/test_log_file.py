import os
import stat
from pathlib import Path

import pytest

from engine.core.errors import ConflictError
from engine.system.log_file import LOG_LIMIT_BYTES, open_log_file


def say(path: Path, data: bytes) -> None:
    fd = open_log_file(path)
    os.write(fd, data)
    os.close(fd)


def test_log_grows_and_is_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "host.log"
    path.touch(0o644)
    for data in (b"one\n", b"two\n"):
        say(path, data)
    assert path.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_long_log_is_kept_once_beside_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "host.log"
    for letter in (b"a", b"b", b"c"):
        say(path, letter * (LOG_LIMIT_BYTES + 1))
    say(path, b"new")
    assert path.read_bytes() == b"new"
    assert (tmp_path / "host.log.1").read_bytes()[:1] == b"c"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["host.log", "host.log.1"]


@pytest.mark.parametrize("kind", ["link", "pipe", "pipe that is read"])
def test_what_is_no_plain_file_is_refused_and_untouched(tmp_path: Path, kind: str) -> None:
    path, aim = tmp_path / "host.log", tmp_path / "aim"
    aim.write_text("mine")
    reader = None
    if kind == "link":
        path.symlink_to(aim)
    else:
        os.mkfifo(path)
        if kind == "pipe that is read":
            reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(ConflictError, match="is no file of its own"):
        say(path, b"x")
    assert aim.read_text() == "mine"
    if reader is not None:
        os.close(reader)


def test_folder_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        say(tmp_path / "nowhere" / "host.log", b"x")
