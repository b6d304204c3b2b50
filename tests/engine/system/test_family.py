import pytest

from engine.core.errors import ExternalError
from engine.system import family
from engine.system.identity import read_stat
from engine.system.process import run
from tests.support.programs import Beacon, shell, spec


def test_a_child_that_has_the_number_of_an_earlier_one_is_not_forgotten_with_it() -> None:
    with family.birth() as register:
        forget_earlier = register(-1)
        forget_later = register(-1)
    forget_earlier()
    assert -1 in family._family.own
    forget_later()
    assert -1 not in family._family.own


@pytest.mark.usefixtures("adopting")
async def test_members_of_the_group_that_were_adopted_are_collected(beacon: Beacon) -> None:
    await run(spec(shell("sleep 60 & sleep 60 & echo $! > $1", str(beacon.path))))
    assert read_stat(await beacon.pid()) is None
    assert not family.has_children()


async def test_a_kernel_that_will_not_adopt_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "_PR_SET_CHILD_SUBREAPER", -1)
    with pytest.raises(ExternalError, match="cannot adopt orphans: Invalid argument"):
        family.become_subreaper()
