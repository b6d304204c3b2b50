from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.system import family
from tests.support.programs import Beacon, open_beacon


@pytest.fixture
def beacon(tmp_path: Path) -> Iterator[Beacon]:
    with open_beacon(tmp_path) as opened:
        yield opened


@pytest.fixture
def adopting() -> Iterator[None]:
    """Let this process adopt orphans for the length of a test."""
    family.become_subreaper()
    yield
    family._set_subreaper(enabled=False)
