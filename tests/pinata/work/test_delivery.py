"""What a session is told of its runs: each settlement once, whoever settled the run."""

import json
import stat
from pathlib import Path

import pytest

from engine.core.outcome import Status
from pinata.work.delivery import Deliveries
from tests.support.projects import Project, reports, scout
from tests.support.sessions import hosted

LOOK = [scout("look")]
SAYS = {"look": [reports("it is so")]}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "a\n"})


async def told(deliveries: Deliveries) -> list[tuple[str, str]]:
    return [(each.key, each.status.value) for each in await deliveries.pending()]


async def test_end_in_the_background_is_told_until_it_is_confirmed(project: Project) -> None:
    async with hosted(project) as (deliveries, ends):
        begun = await project.run(LOOK, SAYS, background=True)
        run = begun["run"]
        await ends.wait_next()
        [found] = await deliveries.pending()
        assert (found.key, found.run, found.status) == (f"{run}/1", run, Status.SUCCEEDED)
        assert found.answer == await project.call("pinata_status", {"run": run})
        assert found.text == (
            f"Run {run} has ended: succeeded (1 succeeded). [delivery {run}/1]\n"
            "- look (scout): succeeded: did what was asked\n"
            f'Next: pinata_status {{"run": "{run}"}} tells all that was found.'
        )
        assert await deliveries.pending() == [found]
        for _ in range(2):
            await deliveries.confirm(found.key)
        assert await deliveries.pending() == []
    folder = Path(begun["dir"]) / "deliveries"
    assert [path.name for path in folder.iterdir()] == ["1"]
    assert stat.filemode(folder.stat().st_mode) == "drwx------"
    assert stat.filemode((folder / "1").stat().st_mode) == "-rw-------"
    confirmed = json.loads((folder / "1").read_text())
    size = (folder.parent / "events.jsonl").stat().st_size
    assert confirmed == {
        "kind": "delivered",
        "v": 1,
        "run": run,
        "settlement": 1,
        "log_bytes": size,
    }
