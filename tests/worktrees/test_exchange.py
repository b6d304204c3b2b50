import errno
import os
from pathlib import Path

import pytest

from tests.support.movers import Refusing
from worktrees import exchange
from worktrees.exchange import KernelMover, NoExchangeError, check_exchange


def test_a_swap_keeps_both_and_a_move_never_overwrites(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.mkdir()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        KernelMover().swap(folder, b"one", folder, b"two")
        assert (one.is_dir(), two.read_bytes()) == (True, b"1")
        with pytest.raises(FileExistsError):
            KernelMover().move(folder, b"two", folder, b"one")
        KernelMover().move(folder, b"two", folder, b"three")
    finally:
        os.close(folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "three"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_without_exchange_is_named(tmp_path: Path, code: int) -> None:
    with pytest.raises(NoExchangeError, match="keep the checkout on a local file system"):
        check_exchange(Refusing(code), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_failure_is_no_verdict_about_the_file_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        check_exchange(Refusing(errno.ENOSPC), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_c_library_without_the_call_counts_as_a_system_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_RENAMEAT2", None)
    with pytest.raises(NoExchangeError):
        check_exchange(KernelMover(), tmp_path)
