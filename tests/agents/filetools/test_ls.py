from tests.support.toolbox import Toolbox


async def test_entries_are_sorted_and_folders_marked(box: Toolbox) -> None:
    box.put("src/b", "")
    box.put("src/a/x", "")
    box.put("src/.hidden", "")
    (box.root / "src/link").symlink_to("a")
    (box.root / "src/broken").symlink_to("nowhere")
    assert await box.text("ls", path="src") == ".hidden\na/\nb\nbroken\nlink/"


async def test_an_empty_directory_is_said_to_be_empty(box: Toolbox) -> None:
    (box.root / "empty").mkdir()
    assert await box.text("ls", path="empty") == "the directory is empty"


async def test_a_limit_is_told(box: Toolbox) -> None:
    for name in "abc":
        box.put(f"src/{name}", "")
    assert await box.text("ls", path="src", limit=2) == (
        "a\nb\n\n[the first 2 of 3 entries are shown; raise limit, or use find "
        "(answers end at 50 KB)]"
    )


async def test_500_entries_are_shown_by_default(box: Toolbox) -> None:
    for number in range(501):
        box.put(f"src/{number}", "")
    assert "[the first 500 of 501 entries are shown" in await box.text("ls", path="src")


async def test_a_file_and_nothing_are_told_apart(box: Toolbox) -> None:
    box.put("a", "")
    assert '"a" is a file; read shows it' in await box.fault("ls", path="a")
    assert 'there is no "b"' in await box.fault("ls", path="b")
