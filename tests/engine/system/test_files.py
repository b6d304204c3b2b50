import errno
import os
import re
import socket
import stat
from pathlib import Path

import pytest

from engine.core.errors import ConflictError, CorruptionError, UsageError
from engine.system import faults, files
from engine.system.files import (
    make_private_dir,
    read_regular,
    replace_file,
    replace_many,
    sync_dir,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_exact_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "a", b"new", 0o664, fault="test")
        replace_file(tmp_path / "b", b"", fault="test")
    finally:
        os.umask(before)
    assert [(tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()] == [b"new", b""]
    assert [mode(tmp_path / "a"), mode(tmp_path / "b")] == [0o664, 0o600]
    assert names(tmp_path) == ["a", "b"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"untouched")
    (tmp_path / "link").symlink_to("target")
    replace_file(tmp_path / "link", b"new", fault="test")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"untouched"


STEPS = ["test.started", "test.written", "test.renamed", "test.durable"]


@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_step_leaves_the_old_or_the_new_contents_and_nothing_else(
    step: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    faults.install(f"error:{step}:1:ENOSPC")
    try:
        with pytest.raises(OSError, match="No space left") as caught:
            replace_file(path, b"new", fault="test")
    finally:
        faults.install("")
    assert caught.value.errno == errno.ENOSPC
    renamed = STEPS.index(step) >= STEPS.index("test.renamed")
    assert path.read_bytes() == (b"new" if renamed else b"old")
    assert names(tmp_path) == ["file"]


def test_contents_are_flushed_before_their_name_even_if_the_name_need_not_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    usual = os.fsync

    def flush(fd: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        usual(fd)

    monkeypatch.setattr(os, "fsync", flush)
    replace_file(tmp_path / "file", b"new", fault="test", durable=False)
    assert (tmp_path / "file").read_bytes() == b"new"
    [staged] = flushed
    assert staged.startswith(str(tmp_path / ".file."))


@pytest.mark.parametrize("number", [0, 1, 3, 4, 20], ids=str)
def test_many_files_are_replaced_at_once(number: int, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    wanted = [(folders[i % 2] / f"f{i}", f"contents {i}".encode()) for i in range(number)]
    replace_many(wanted, fault="test")
    assert [path.read_bytes() for path, _ in wanted] == [data for _, data in wanted]
    assert {mode(path) for path, _ in wanted} <= {0o600}
    assert sorted(names(folders[0]) + names(folders[1])) == sorted(path.name for path, _ in wanted)


def test_many_files_stopped_half_way_are_each_old_or_new(tmp_path: Path) -> None:
    wanted = [(tmp_path / name, b"new") for name in ("a", "b", "c")]
    for path, _ in wanted:
        path.write_bytes(b"old")
    faults.install("error:test.renamed:2:EIO")
    try:
        with pytest.raises(OSError, match="Input/output error"):
            replace_many(wanted, fault="test")
    finally:
        faults.install("")
    assert [path.read_bytes() for path, _ in wanted] == [b"new", b"new", b"old"]
    assert names(tmp_path) == ["a", "b", "c"]


def test_a_file_system_that_cannot_be_flushed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").touch()
    files.flush_file_system(tmp_path / "f")
    # An O_PATH descriptor names a file without opening it, and syncfs(2) refuses it.
    monkeypatch.setattr(os, "O_RDONLY", os.O_PATH)
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.flush_file_system(tmp_path / "f")


def test_a_plain_file_is_read_up_to_exactly_its_limit(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    assert read_regular(tmp_path / "f", 5) == b"12345"
    with pytest.raises(CorruptionError, match=f"{tmp_path / 'f'} is longer than 4 bytes"):
        read_regular(tmp_path / "f", 4)


def test_what_is_no_plain_file_is_refused_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "link").symlink_to("f")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name in ("link", "folder", "fifo", "socket"):
            with pytest.raises(CorruptionError, match=f"{name} is not a regular file"):
                read_regular(tmp_path / name, 100)


def test_a_missing_file_stays_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", 1)
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "none" / "f", b"", fault="test")


def test_a_private_folder_and_its_missing_parents_are_closed_to_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_dir(tmp_path / "a" / "b")
    make_private_dir(tmp_path / "a" / "b")
    found = [mode(path) for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")]
    assert found == [0o755, 0o700, 0o700]


def test_a_folder_that_others_can_enter_is_closed(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(0o755)
    make_private_dir(tmp_path / "open")
    assert mode(tmp_path / "open") == 0o700


def test_a_link_or_a_file_is_no_private_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(ConflictError, match=f"{name} is not a folder of its own; move it"):
            make_private_dir(tmp_path / name)


def test_the_folder_of_another_user_is_no_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConflictError, match="theirs belongs to another user"):
        make_private_dir(tmp_path / "theirs")


def test_only_a_folder_can_be_synced(tmp_path: Path) -> None:
    sync_dir(tmp_path)
    (tmp_path / "f").touch()
    with pytest.raises(NotADirectoryError):
        sync_dir(tmp_path / "f")


@pytest.mark.parametrize(
    "plan",
    ["x", "record:", "kill:a", "kill:a:0", "kill:a:x", "error:a:1", "error:a:1:ENOTHING", "::"],
)
def test_a_plan_that_means_nothing_is_refused(plan: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"fault plan {plan!r} is none of")):
        faults.install(plan)


def test_input_is_read_through_links_and_only_from_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "job").write_bytes(b"{}")
    (tmp_path / "link").symlink_to("job")
    os.mkfifo(tmp_path / "fifo")
    assert files.read_input(tmp_path / "link", 2) == b"{}"
    for name, limit, complaint in (
        ("none", 2, "cannot be read: No such file"),
        ("fifo", 2, "is no regular file"),
        (".", 2, "is no regular file"),
        ("job", 1, "is longer than 1 bytes"),
    ):
        with pytest.raises(UsageError, match=complaint):
            files.read_input(tmp_path / name, limit)
