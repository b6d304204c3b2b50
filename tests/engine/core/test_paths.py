import unicodedata

import pytest
from hypothesis import given, strategies as st

from engine.core.paths import (
    MAX_PATH_CHARS,
    components,
    fold_path,
    has_git_segment,
    is_secret_name,
    path_fault,
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        ("x" * (MAX_PATH_CHARS + 1), "has more than 4,096 characters"),
        ("a\0b", "holds a NUL character"),
        ("a\\b", "holds a backslash"),
        ("/src", "is absolute"),
        ("/", "is absolute"),
        ("C:/x", "starts with a drive letter"),
        ("c:x", "starts with a drive letter"),
        ("src//a", "holds an empty segment"),
        ("src/", "holds an empty segment"),
        ("./src", 'holds the segment "."'),
        ("src/.", 'holds the segment "."'),
        ("..", 'holds the segment ".."'),
        ("a/../b", 'holds the segment ".."'),
        (".git", "leads into a .git folder"),
        ("A/.GIT/x", "leads into a .git folder"),
    ],
)
def test_what_is_no_path_inside_a_repository_is_told_why(text: str, fault: str) -> None:
    assert path_fault(text) == fault


@pytest.mark.parametrize(
    "text",
    [
        "src",
        "src/[id].tsx",
        ".gitignore",
        "a.git/b",
        "...",
        "..name",
        "a b",
        "ab:c",
        "*",
        "é",
        "x" * 4_096,
    ],
)
def test_literal_relative_paths_are_safe(text: str) -> None:
    assert path_fault(text) is None


def test_components_are_the_segments_in_order() -> None:
    assert components(b"a/b\xff/c") == (b"a", b"b\xff", b"c")


@pytest.mark.parametrize("path", [b".git", b"a/.Git/config", b"\xff/.GIT"])
def test_git_segments_are_found_in_any_letter_case(path: bytes) -> None:
    assert has_git_segment(path)


@pytest.mark.parametrize("path", [b".gitignore", b"a.git", b"git/x", b".github/x"])
def test_names_that_only_resemble_git_are_no_git_segments(path: bytes) -> None:
    assert not has_git_segment(path)


@pytest.mark.parametrize(
    "path",
    [
        b".env",
        b"a/.env.local",
        b".ENV",
        b".env/x",
        b".env.example.local",
        b"auth.json",
        b"x/.npmrc",
        b".netrc",
    ],
)
def test_names_that_usually_hold_secrets_are_known(path: bytes) -> None:
    assert is_secret_name(path)


@pytest.mark.parametrize(
    "path",
    [
        b".env.example",
        b"a/.env.sample",
        b".env.TEMPLATE",
        b".env.dist",
        b"env",
        b".envrc",
        b"auth.json.md",
        b"my.env",
    ],
)
def test_templates_and_lookalikes_hold_no_secrets(path: bytes) -> None:
    assert not is_secret_name(path)


def test_paths_stay_as_they_are_where_letter_case_matters() -> None:
    assert fold_path(b"Src/\xff", fold_case=False) == b"Src/\xff"


def test_folding_makes_spellings_of_one_file_equal() -> None:
    assert fold_path(b"SRC/A", fold_case=True) == fold_path(b"src/a", fold_case=True)
    composed, decomposed = (unicodedata.normalize(form, "É.txt") for form in ("NFC", "NFD"))
    assert fold_path(composed.encode(), fold_case=True) == fold_path(
        decomposed.lower().encode(), fold_case=True
    )


def test_folding_keeps_bytes_that_are_no_text() -> None:
    assert fold_path(b"A\xff/B", fold_case=True) == b"a\xff/b"


@given(st.binary())
def test_folding_twice_changes_nothing_more(path: bytes) -> None:
    once = fold_path(path, fold_case=True)
    assert fold_path(once, fold_case=True) == once


@given(st.text(st.sampled_from("aA./\\ \0.gitGIT:"), max_size=12))
def test_safe_paths_stay_inside_and_out_of_git(text: str) -> None:
    if path_fault(text) is None:
        segments = components(text.encode())
        assert all(segment not in {b"", b".", b".."} for segment in segments)
        assert not has_git_segment(text.encode())
