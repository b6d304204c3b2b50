import os
import stat
from pathlib import Path

from tests.support.toolbox import Toolbox


async def test_a_new_file_is_made_with_its_parents(box: Toolbox) -> None:
    assert await box.text("write", path="src/deep/a.txt", content="é\n") == (
        'made "src/deep/a.txt" with 3 bytes'
    )
    assert (box.root / "src/deep/a.txt").read_text() == "é\n"


async def test_a_new_file_gets_the_permissions_of_the_umask(box: Toolbox) -> None:
    await box.text("write", path="a.txt", content="")
    plain = box.put("plain.txt", "")
    assert (box.root / "a.txt").stat().st_mode == plain.stat().st_mode


async def test_replacing_keeps_the_permission_bits_and_leaves_no_other_file(box: Toolbox) -> None:
    path = box.put("run.sh", "old")
    path.chmod(0o751)
    assert await box.text("write", path="run.sh", content="new") == 'replaced "run.sh" with 3 bytes'
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert box.names() == ["run.sh"]


async def test_another_name_of_the_same_file_keeps_the_old_content(
    box: Toolbox, tmp_path: Path
) -> None:
    path = box.put("a.txt", "old")
    (tmp_path / "store").hardlink_to(path)
    await box.text("write", path="a.txt", content="new")
    assert (tmp_path / "store").read_text() == "old"


async def test_a_link_anywhere_on_the_way_is_refused_without_the_guard(
    box: Toolbox, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("theirs")
    (box.root / "folder").symlink_to(tmp_path / "outside")
    (box.root / "file").symlink_to(tmp_path / "outside/file")
    assert 'folder in "folder/x" is a symbolic link' in await box.fault(
        "write", path="folder/x", content=""
    )
    assert '"file" is a symbolic link' in await box.fault("write", path="file", content="")
    assert "is a symbolic link" in await box.fault(
        "edit", path="file", edits=[{"oldText": "theirs", "newText": "mine"}]
    )
    assert (tmp_path / "outside/file").read_text() == "theirs"
    assert box.names("../outside") == ["file"]


async def test_nothing_is_written_outside_of_the_working_directory(
    box: Toolbox, tmp_path: Path
) -> None:
    for path in ("../x", str(tmp_path / "x"), "~/x", "a/../../x"):
        assert "outside of the working directory" in await box.fault("write", path=path, content="")
    assert box.names("..") == ["home", "work"]


async def test_what_is_no_regular_file_is_not_replaced(box: Toolbox) -> None:
    box.put("src/a.txt", "")
    os.mkfifo(box.root / "pipe")
    assert '"src" is a directory' in await box.fault("write", path="src", content="")
    assert '"pipe" is a named pipe' in await box.fault("write", path="pipe", content="")
    assert 'a.txt in "src/a.txt/b" is a regular file and no directory' in await box.fault(
        "write", path="src/a.txt/b", content=""
    )
    assert "working directory itself" in await box.fault("write", path=".", content="")


async def test_what_the_system_refuses_is_an_answer_and_leaves_nothing(box: Toolbox) -> None:
    fault = await box.fault("write", path="x" * 300, content="")
    assert fault == "write: file name too long"
    assert box.names() == []
