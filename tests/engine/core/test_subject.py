from dataclasses import replace

from engine.core.changes import ABSENT_MODE, FILE_MODE, Change, ChangeStatus
from engine.core.ids import BlobId, TreeId
from engine.core.subject import subject_fingerprint

BASE = TreeId("a" * 40)
ONE = Change(
    b"one.txt", ChangeStatus.MODIFIED, FILE_MODE, FILE_MODE, BlobId("1" * 40), BlobId("2" * 40)
)
TWO = Change(
    b"two.txt", ChangeStatus.ADDED, ABSENT_MODE, FILE_MODE, BlobId("0" * 40), BlobId("3" * 40)
)


def test_the_order_of_changes_does_not_matter_to_a_subject() -> None:
    assert subject_fingerprint(BASE, [ONE, TWO]) == subject_fingerprint(BASE, [TWO, ONE])


def test_another_base_path_content_or_mode_is_another_subject() -> None:
    others = [
        subject_fingerprint(TreeId("b" * 40), [ONE]),
        subject_fingerprint(BASE, []),
        subject_fingerprint(BASE, [ONE, TWO]),
        subject_fingerprint(BASE, [replace(ONE, path=b"other.txt")]),
        subject_fingerprint(BASE, [replace(ONE, new_blob=BlobId("4" * 40))]),
        subject_fingerprint(BASE, [replace(ONE, new_mode="100755")]),
    ]
    assert len({subject_fingerprint(BASE, [ONE]), *others}) == 1 + len(others)
