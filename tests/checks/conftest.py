from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import Beacon, open_beacon


@pytest.fixture
def beacon(tmp_path: Path) -> Iterator[Beacon]:
    with open_beacon(tmp_path) as opened:
        yield opened
