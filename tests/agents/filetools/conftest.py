from pathlib import Path

import pytest

from tests.support.toolbox import Toolbox


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox.create(tmp_path)
