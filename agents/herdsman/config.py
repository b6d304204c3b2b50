"""What a user has set for all agents, in one small file; whatever is not in it keeps its default.

The file is read at each use. What it says wrongly is an error then, and never a default.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import trio
from pydantic import Field, TypeAdapter
from pydantic.alias_generators import to_camel

from agents.herdsman.errors import HerdError, broken, invalid
from agents.herdsman.premises import Premises
from engine.core.errors import ExternalError, UsageError, reason_of
from engine.records.fields import NotNull
from engine.records.json_text import decode_json
from engine.records.request import Request, decode
from engine.system import faults
from engine.system.files import is_there, make_private_dir, read_input, replace_file, sync_dir
from engine.system.locks import hold

SpawnPlacement = Literal["tab", "subtree", "split"]

_DEFAULT_LIMIT_BYTES: Final = 128 << 10
_LEAST_LIMIT_BYTES: Final = 1 << 10
_MOST_LIMIT_BYTES: Final = 1 << 20
_FILE_LIMIT_BYTES: Final = 64 << 10
_LOCK: Final = "config"
_Limit = Annotated[
    int | None,
    NotNull(),
    Field(
        ge=_LEAST_LIMIT_BYTES,
        le=_MOST_LIMIT_BYTES,
        description=f"an integer from {_LEAST_LIMIT_BYTES:,} to {_MOST_LIMIT_BYTES:,}",
    ),
]


@dataclass(frozen=True, slots=True)
class HerdConfig:
    """What holds now.

    Attributes:
        spawn_placement: where a terminal multiplexer shows a new agent. Nothing here asks for it,
            as no agent runs in one; it is one of the file's keys, and what is set stays.
        context_retirement: a session whose context is full is not continued.
        inline_attachment_limit_bytes: the longest file that is put into a message.
        mailbox_payload_limit_bytes: the longest record that a new request or question may make.
    """

    spawn_placement: SpawnPlacement = "subtree"
    context_retirement: bool = True
    inline_attachment_limit_bytes: int = _DEFAULT_LIMIT_BYTES
    mailbox_payload_limit_bytes: int = _DEFAULT_LIMIT_BYTES

    def as_fields(self) -> dict[str, object]:
        """Return each setting by the name that stands in the file, sorted by that."""
        return {name: getattr(self, field) for name, field in sorted(_FIELDS.items())}


class _FileV1(Request):
    """The file; it holds nothing but what differs from the defaults because somebody said so."""

    spawn_placement: Annotated[
        SpawnPlacement | None, NotNull(), Field(description="tab, subtree or split")
    ] = None
    context_retirement: Annotated[bool | None, NotNull(), Field(description="true or false")] = None
    inline_attachment_limit_bytes: _Limit = None
    mailbox_payload_limit_bytes: _Limit = None


_FILE: TypeAdapter[_FileV1] = TypeAdapter(_FileV1)


async def read_config(premises: Premises) -> HerdConfig:
    """Return what holds now; a file that is not there changes nothing, and is not made.

    Raises:
        HerdError: INVALID_REQUEST, where the file is not what it must be.
    """
    path = premises.config_file
    try:
        return _effective(await trio.to_thread.run_sync(_read, path))
    except UsageError as error:
        raise _faulty(path, error) from error


async def change_config(premises: Premises, changes: Mapping[str, object]) -> HerdConfig:
    """Change what the user has set, and return what holds then.

    Args:
        premises: whose configuration it is.
        changes: by the names that stand in the file; None takes back what was set.

    Raises:
        HerdError: INVALID_REQUEST where a name or a value does not fit, or the file is not what it
            must be; INTERNAL_FAILURE where it cannot be written. Nothing was changed.
    """
    _check(changes)
    path, folder = premises.config_file, premises.locks
    try:
        await trio.to_thread.run_sync(make_private_dir, folder)
        async with hold(folder / _LOCK, what=str(path), holder=premises.holder):
            return _effective(await trio.to_thread.run_sync(_change, path, changes))
    except UsageError as error:
        raise _faulty(path, error) from error
    except ExternalError as error:
        raise broken(str(error)) from error
    except OSError as error:
        raise broken(f"{path} cannot be written: {reason_of(error)}") from error


def _check(changes: Mapping[str, object]) -> None:
    """Check that there are such settings, and that they can have these values.

    Raises:
        HerdError: INVALID_REQUEST.
    """
    # What is taken back has no value that could be wrong.
    given = {
        name: value for name, value in changes.items() if value is not None or name not in _FIELDS
    }
    try:
        decode(_FILE, given, place="")
    except UsageError as error:
        raise invalid(str(error)) from error


def _faulty(path: Path, error: UsageError) -> HerdError:
    return invalid(str(error), next_action=f"correct {path}, or remove it")


def _effective(stated: _FileV1) -> HerdConfig:
    return HerdConfig(**{name: getattr(stated, name) for name in stated.model_fields_set})


def _read(path: Path) -> _FileV1:
    """Return what the file states.

    Raises:
        UsageError: it is not what it must be.
    """
    if not is_there(path):
        return _FileV1()
    return _decoded(decode_json(read_input(path, _FILE_LIMIT_BYTES), str(path)), path)


def _decoded(content: object, path: Path) -> _FileV1:
    return decode(_FILE, content, place=str(path))


def _change(path: Path, changes: Mapping[str, object]) -> _FileV1:
    before = _stated(_read(path))
    after = {name: value for name, value in {**before, **changes}.items() if value is not None}
    stated = _decoded(after, path)
    if after:
        make_private_dir(path.parent)
        text = json.dumps(after, indent=2, sort_keys=True) + "\n"
        replace_file(path, text.encode(), fault="herd.config")
    elif is_there(path):
        path.unlink()
        faults.point("herd.config.removed")
        sync_dir(path.parent)
    return stated


def _stated(file: _FileV1) -> dict[str, object]:
    return file.model_dump(by_alias=True, exclude_unset=True)


_FIELDS: Final = {to_camel(name): name for name in _FileV1.model_fields}
