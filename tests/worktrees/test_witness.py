from pathlib import Path

import pytest

from engine.system.occupants import Occupant
from worktrees.witness import Witness, bear_witness, why_it_stays

FACTS = (0o100644, 7, 3, 10, 11)
BEFORE = Witness({b"": FACTS, b"a.txt": FACTS}, {b"HEAD": FACTS})


def test_what_is_as_it_was_and_what_nobody_can_write_to_goes() -> None:
    assert why_it_stays(BEFORE, BEFORE, []) is None


@pytest.mark.parametrize(
    ("files", "private", "says"),
    [
        ({b"mine.txt": FACTS}, {}, "mine.txt came, went or changed while"),
        ({b"a.txt": (*FACTS[:4], 12)}, {}, "a.txt came, went or changed while"),
        ({b"": (*FACTS[:1], 8, *FACTS[2:])}, {}, ". came, went or changed while"),
        ({}, {b"index": FACTS}, "index in Git's folder of it came, went or changed while"),
    ],
)
def test_whatever_came_or_changed_meanwhile_is_named(
    files: dict[bytes, tuple[int, int, int, int, int]],
    private: dict[bytes, tuple[int, int, int, int, int]],
    says: str,
) -> None:
    after = Witness(BEFORE.files | files, BEFORE.private | private)
    for reason in (why_it_stays(BEFORE, after, []), why_it_stays(after, BEFORE, [])):
        assert reason is not None
        assert reason.startswith(says)


def test_processes_that_may_write_there_are_named() -> None:
    reason = why_it_stays(BEFORE, BEFORE, [Occupant(7, "vim"), Occupant(8, "a\x1b")])
    assert reason == (
        "vim (process 7) and a\\x1b (process 8) may write there: end it, or have it leave, and "
        "call again"
    )


def test_renaming_a_folder_leaves_it_what_it_was(tmp_path: Path) -> None:
    folder, private = tmp_path / "fix", tmp_path / "private"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_text("one")
    (folder / "link").symlink_to("nowhere")
    private.mkdir()
    before = bear_witness(folder, private)
    moved = folder.rename(tmp_path / "moved")
    assert bear_witness(moved, private) == before
    (moved / "deep" / "file").write_text("two")
    assert bear_witness(moved, private) != before
    assert bear_witness(tmp_path / "gone", private).files == {}
