import json

import pytest

from engine.core.errors import CorruptionError
from engine.core.ids import CommitId, TreeId
from engine.core.setup import Setup, SetupSource
from engine.records.run import RunRecordV1, decode_run, encode_run
from engine.records.spec import encode_spec
from tests.support.jobs import accepted, job, scout

SPEC = accepted(job(scout()))
RECORD = RunRecordV1(
    run="0123456789abcdef",
    root="/repo",
    started_in="/repo/src",
    started_at_ms=1,
    deadline_at_ms=2,
    head="a" * 40,
    base_commit="b" * 40,
    base_tree="c" * 40,
    uncommitted=["kept.txt"],
    fold_case=False,
    definitions={},
    setup=Setup(SetupSource.NOT_NEEDED),
    mark="d" * 32,
    notices=[],
    spec=encode_spec(SPEC),
)


def test_a_record_is_read_back_as_it_was_written() -> None:
    read = decode_run(encode_run(RECORD), "run.json")
    assert read == RECORD
    assert read.request() == SPEC
    assert read.base == (CommitId("b" * 40), TreeId("c" * 40))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"v": 2}, "v: 2 is not one of the known values; it must be 1, the version that this"),
        ({"head": 5}, "head: 5 is not text"),
        ({"owner": "me"}, 'unknown field "owner"'),
        ({"setup": {"source": "guessed"}}, 'setup.source: "guessed" is not one of the known'),
    ],
)
def test_a_record_that_was_not_written_so_is_refused(change: dict[str, object], fault: str) -> None:
    data = json.dumps(json.loads(encode_run(RECORD)) | change).encode()
    with pytest.raises(CorruptionError) as caught:
        decode_run(data, "/x/run.json")
    assert str(caught.value).startswith(f"/x/run.json is damaged: {fault}")


def test_bytes_that_are_no_json_are_no_record() -> None:
    with pytest.raises(CorruptionError, match=r"^run\.json is damaged: it is not JSON$"):
        decode_run(b"{", "run.json")
