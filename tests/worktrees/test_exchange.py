import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.movers import Refusing, forget_renameat2
from worktrees.exchange import (
    MOVERS,
    KernelMover,
    LinkMover,
    Mover,
    NoExchangeError,
    choose_mover,
    mover_for,
)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[int]:
    """The open folder that a test has for itself."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("mover", MOVERS)
def test_a_swap_keeps_both_and_no_move_overwrites(mover: Mover, tmp_path: Path, here: int) -> None:
    one, two, free = tmp_path / "one", tmp_path / "two", tmp_path / "free"
    one.write_bytes(b"1")
    two.symlink_to("elsewhere")
    mover.swap(here, b"one", here, b"two")
    assert (str(one.readlink()), two.read_bytes()) == ("elsewhere", b"1")
    with pytest.raises(FileExistsError):
        mover.put(here, b"two", here, b"one")
    with pytest.raises(FileExistsError):
        mover.take(here, b"two", here, b"one")
    assert (str(one.readlink()), two.read_bytes()) == ("elsewhere", b"1")
    mover.put(here, b"two", here, b"free")
    mover.take(here, b"one", here, b"two")
    assert (free.read_bytes(), str(two.readlink())) == (b"1", "elsewhere")
    assert sorted(os.listdir(here)) == ["free", "two"]


def test_a_swap_by_links_whose_place_is_taken_overwrites_nothing(tmp_path: Path, here: int) -> None:
    class Taken(LinkMover):
        def put(self, slots: int, slot: bytes, folder: int, name: bytes) -> None:
            tmp_path.joinpath("place").write_bytes(b"theirs")
            super().put(slots, slot, folder, name)

    tmp_path.joinpath("place").write_bytes(b"before")
    tmp_path.joinpath("0").write_bytes(b"after")
    with pytest.raises(FileExistsError):
        Taken().swap(here, b"place", here, b"0")
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {"place": b"theirs", "0": b"after", "0~": b"before"}


def test_a_folder_is_not_taken_by_link_and_put_only_where_nothing_is(
    tmp_path: Path, here: int
) -> None:
    tmp_path.joinpath("folder").mkdir()
    tmp_path.joinpath("file").write_bytes(b"mine")
    tmp_path.joinpath("full/of").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        LinkMover().take(here, b"folder", here, b"slot")
    for taken in (b"file", b"full"):
        with pytest.raises(OSError, match=r"Not a directory|Directory not empty"):
            LinkMover().put(here, b"folder", here, taken)
    LinkMover().put(here, b"folder", here, b"free")
    assert sorted(os.listdir(here)) == ["file", "free", "full"]


def test_the_kernel_is_chosen_where_it_can_and_links_where_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_mover(tmp_path) is mover_for(in_one_step=True)
    forget_renameat2(monkeypatch)
    assert choose_mover(tmp_path) is mover_for(in_one_step=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM])
def test_a_file_system_without_any_certain_move_is_named(tmp_path: Path, code: int) -> None:
    with pytest.raises(NoExchangeError, match="keep the checkout on a local file system"):
        choose_mover(tmp_path, (Refusing(code),))
    assert list(tmp_path.iterdir()) == []


def test_a_second_name_that_is_another_file_is_no_second_name(tmp_path: Path) -> None:
    class Copying(KernelMover):
        def swap(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
            super().swap(folder, name, slots, slot)
            tmp_path.joinpath("copy").touch()
            os.replace("copy", slot, src_dir_fd=slots, dst_dir_fd=slots)

    with pytest.raises(NoExchangeError):
        choose_mover(tmp_path, (Copying(),))


def test_another_failure_is_no_verdict_about_the_file_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        choose_mover(tmp_path, (Refusing(errno.ENOSPC),))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_trial_left_is_removed_by_the_next(tmp_path: Path) -> None:
    tmp_path.joinpath("try-one").touch()
    tmp_path.joinpath("try-two~").touch()
    choose_mover(tmp_path)
    assert list(tmp_path.iterdir()) == []
