from pathlib import Path

import pytest

from agents.filetools.resolve import Place, display, locate, resolve, unquote

ROOT = Path("/src/tree")


@pytest.mark.parametrize(
    ("given", "means"),
    [
        ("a", "/src/tree/a"),
        ("./a//b/", "/src/tree/a/b"),
        ("..", "/src"),
        ("../../../..", "/"),
        ("/", "/"),
        ("//etc", "/etc"),
        ("@a", "/src/tree/a"),
        ("@@a", "/src/tree/@a"),
        ("~", "/home/me"),
        ("~/a", "/home/me/a"),
        ("@~/a", "/home/me/a"),
        ("~a", "/src/tree/~a"),
        ("a\u00a0b\u2009c\u202fd\u205fe\u3000f", "/src/tree/a b c d e f"),
        ("..notes/x", "/src/tree/..notes/x"),
    ],
)
def test_a_path_is_read_as_models_write_them(given: str, means: str) -> None:
    assert str(resolve(given, ROOT, "/home/me")) == means


def test_a_place_is_found_below_the_real_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    found = Place(tmp_path / "real", (b"a", b"\xc3\xa9"))
    assert locate("a/é", tmp_path / "alias", None) == found
    assert locate(f"{tmp_path}/real/a/é", tmp_path / "alias", None) == found
    assert found.relative == b"a/\xc3\xa9"
    assert locate("../realx", tmp_path / "real", None) is None
    assert locate("..", tmp_path / "real", None) is None
    assert locate(".", tmp_path / "real", None) == Place(tmp_path / "real", ())


def test_paths_are_shown_as_they_can_be_given_again() -> None:
    assert display(ROOT, ROOT) == "."
    assert display(ROOT / "a/b", ROOT) == "a/b"
    assert display(Path("/src/treex"), ROOT) == "/src/treex"
    assert unquote(display(ROOT / "a\nb\udcff", ROOT)) == "a\nb\udcff"
    assert unquote('"\\') == '"\\'
    assert unquote('"\\"') == '"\\"'
    assert unquote('"\\9"') == '"\\9"'
    assert unquote('"a') == '"a'
