"""What a user has set for all managed agents, as a person at a terminal sees and changes it."""

from collections.abc import Mapping
from typing import Any

from agents.herdsman.config import change_config, read_config
from pinata.work.context import Context
from pinata.work.herd_place import premises_of


async def change_settings(context: Context, changes: Mapping[str, object]) -> dict[str, Any]:
    """Return the file of the settings, and each that holds once these are changed.

    Args:
        context: the caller's.
        changes: by name; None takes back what was set. Without any, nothing is written.

    Raises:
        HerdError: see `agents.herdsman.config.change_config`.
        UsageError: the environment names no home.
    """
    premises = premises_of(context)
    config = await (change_config(premises, changes) if changes else read_config(premises))
    return {"file": str(premises.config_file), "settings": config.as_fields()}
