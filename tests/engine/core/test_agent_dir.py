from collections.abc import Mapping

import pytest

from engine.core.agent_dir import agent_dir


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"HOME": "/home/u"}, "/home/u/.pi/agent"),
        ({"HOME": "/home/u", "PI_CODING_AGENT_DIR": ""}, "/home/u/.pi/agent"),
        ({"HOME": "/home/u", "PI_CODING_AGENT_DIR": "/srv/pi"}, "/srv/pi"),
        ({"PI_CODING_AGENT_DIR": "/srv/pi"}, "/srv/pi"),
        ({"HOME": "/home/u", "PI_CODING_AGENT_DIR": "~/pi"}, "/home/u/pi"),
        ({"HOME": "/home/u", "PI_CODING_AGENT_DIR": "~"}, "/home/u"),
        ({"HOME": "/home/u", "PI_CODING_AGENT_DIR": "~other/pi"}, "~other/pi"),
        ({"PI_CODING_AGENT_DIR": "~/pi"}, None),
        ({"HOME": ""}, None),
        ({}, None),
    ],
)
def test_agent_directory_is_where_pi_looks_for_it(
    environment: Mapping[str, str], found: str | None
) -> None:
    assert agent_dir(environment) == found
