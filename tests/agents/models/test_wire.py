import pytest

from agents.models.wire import MalformedError, Meter


def test_a_line_may_be_as_large_as_the_limit_and_not_larger() -> None:
    meter = Meter(max_event_bytes=1_000)
    for _ in range(10):
        meter.count(b"x" * 100)
    with pytest.raises(MalformedError, match="an event of the answer is larger than 1,000 bytes"):
        meter.count(b"x")


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"])
@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4])
def test_the_end_of_an_event_is_seen_wherever_a_part_ends(end: bytes, cut: int) -> None:
    meter = Meter(max_event_bytes=100 + len(end))
    for _ in range(3):
        meter.count(b"x" * 100)
        meter.count(end[:cut])
        meter.count(end[cut:])


def test_many_short_lines_are_one_event_until_it_ends() -> None:
    meter, line = Meter(max_event_bytes=1_000), b"data: x\n"
    for _ in range(125):
        meter.count(line)
    with pytest.raises(MalformedError, match="an event of the answer is larger"):
        meter.count(line)


def test_an_answer_may_be_as_large_as_the_limit_and_not_larger() -> None:
    meter = Meter(max_answer_bytes=1_000, max_event_bytes=100)
    for _ in range(10):
        meter.count(b"x" * 98 + b"\n\n")
    with pytest.raises(MalformedError, match="the answer is larger than 1,000 bytes"):
        meter.count(b"x")
