from pathlib import Path

from engine.system.links import leads_out


def test_a_path_is_outside_when_any_link_on_its_way_leads_out(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "in-other"
    (inside / "a").mkdir(parents=True)
    outside.mkdir()
    (inside / "out").symlink_to(outside)
    (inside / "back").symlink_to("a")
    (inside / "self").symlink_to("self")
    assert not leads_out(inside, inside)
    assert not leads_out(inside / "a" / "missing", inside)
    assert not leads_out(inside / "back" / "x", inside)
    assert not leads_out(inside / "self", inside)
    assert leads_out(inside / "out" / "x", inside)
    assert leads_out(inside / "a" / ".." / ".." / "x", inside)
    assert leads_out(outside, inside)
