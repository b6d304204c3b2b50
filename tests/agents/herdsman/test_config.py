import json
from pathlib import Path

import pytest
import trio

from agents.herdsman.config import HerdConfig, change_config, read_config
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.premises import Premises
from engine.system import faults
from tests.support.clock import FakeClock


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return Premises(tmp_path / "data" / "herd", FakeClock(), "a test")


def write(premises: Premises, text: str) -> None:
    premises.root.mkdir(parents=True, exist_ok=True)
    premises.config_file.write_text(text, "utf-8")


async def refused(premises: Premises) -> str:
    with pytest.raises(HerdError) as caught:
        await read_config(premises)
    assert caught.value.trouble.category is Category.INVALID_REQUEST
    assert str(premises.config_file) in caught.value.trouble.next_action
    return str(caught.value)


async def test_without_a_file_the_defaults_hold_and_none_is_made(premises: Premises) -> None:
    assert await read_config(premises) == HerdConfig(
        spawn_placement="subtree",
        context_retirement=True,
        inline_attachment_limit_bytes=131_072,
        mailbox_payload_limit_bytes=131_072,
    )
    assert not premises.root.exists()


async def test_what_the_file_says_holds_at_the_next_use(premises: Premises) -> None:
    write(premises, '{"spawnPlacement": "split", "contextRetirement": false}')
    assert await read_config(premises) == HerdConfig("split", context_retirement=False)
    write(premises, '{"mailboxPayloadLimitBytes": 1024, "inlineAttachmentLimitBytes": 1048576}')
    assert await read_config(premises) == HerdConfig(
        inline_attachment_limit_bytes=1_048_576, mailbox_payload_limit_bytes=1_024
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"retirement": true}', "retirement"),
        ('{"context_retirement": true}', "context_retirement"),
        ('{"contextRetirement": 1}', "contextRetirement"),
        ('{"contextRetirement": null}', "contextRetirement"),
        ('{"spawnPlacement": "window"}', "spawnPlacement"),
        ('{"mailboxPayloadLimitBytes": 1023}', "mailboxPayloadLimitBytes"),
        ('{"mailboxPayloadLimitBytes": 1048577}', "mailboxPayloadLimitBytes"),
        ('{"inlineAttachmentLimitBytes": 2048.0}', "inlineAttachmentLimitBytes"),
        ("[]", "is not an object"),
        ("{", "is not JSON"),
    ],
)
async def test_whatever_needs_a_faulty_configuration_reports_it(
    premises: Premises, text: str, named: str
) -> None:
    write(premises, text)
    said = await refused(premises)
    assert str(premises.config_file) in said
    assert named in said
    with pytest.raises(HerdError):
        await change_config(premises, {"contextRetirement": True})
    assert premises.config_file.read_text("utf-8") == text


async def test_a_configuration_that_is_a_folder_is_reported(premises: Premises) -> None:
    premises.config_file.mkdir(parents=True)
    assert "is no regular file" in await refused(premises)


async def test_two_changes_at_once_both_survive(premises: Premises) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(change_config, premises, {"contextRetirement": False})
        nursery.start_soon(change_config, premises, {"spawnPlacement": "tab"})
        nursery.start_soon(change_config, premises, {"mailboxPayloadLimitBytes": 4096})
    assert await read_config(premises) == HerdConfig(
        "tab", context_retirement=False, mailbox_payload_limit_bytes=4096
    )


async def test_taking_the_last_setting_back_removes_the_file(premises: Premises) -> None:
    await change_config(premises, {"contextRetirement": False, "spawnPlacement": "tab"})
    assert await change_config(premises, {"spawnPlacement": None}) == HerdConfig(
        context_retirement=False
    )
    assert json.loads(premises.config_file.read_bytes()) == {"contextRetirement": False}
    assert await change_config(premises, {"contextRetirement": None}) == HerdConfig()
    assert not premises.config_file.exists()
    assert await change_config(premises, {"contextRetirement": None}) == HerdConfig()


@pytest.mark.parametrize("changes", [{"colour": "red"}, {"colour": None}, {"spawnPlacement": 1}])
async def test_a_change_that_does_not_fit_changes_nothing(
    premises: Premises, changes: dict[str, object]
) -> None:
    await change_config(premises, {"contextRetirement": False})
    before = premises.config_file.read_bytes()
    with pytest.raises(HerdError) as caught:
        await change_config(premises, {"contextRetirement": True} | changes)
    assert next(iter(changes)) in str(caught.value)
    assert premises.config_file.read_bytes() == before


async def test_a_change_that_cannot_be_written_is_told(premises: Premises) -> None:
    faults.install("error:herd.config.written:1:ENOSPC")
    try:
        with pytest.raises(HerdError, match="No space left") as caught:
            await change_config(premises, {"contextRetirement": False})
    finally:
        faults.install("")
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE
    assert await read_config(premises) == HerdConfig()


async def test_a_change_whose_lock_cannot_be_opened_is_told(premises: Premises) -> None:
    (premises.locks / "config").mkdir(parents=True)
    with pytest.raises(HerdError, match="cannot lock") as caught:
        await change_config(premises, {"contextRetirement": False})
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE
