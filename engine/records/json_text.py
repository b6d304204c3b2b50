"""JSON texts that people write, read without guessing what they mean."""

import json
from typing import NoReturn

from engine.core.quote import quote_value
from engine.records.request import RequestError


def decode_json(content: bytes, source: str) -> object:
    """Return what the JSON text `content` holds.

    Args:
        content: UTF-8, with or without a byte order mark.
        source: the name of the file it comes from, for messages.

    Raises:
        RequestError: it is no JSON text, says a thing twice, or holds what JSON cannot.
    """

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, value in pairs:
            if name in found:
                raise RequestError(source, f"{quote_value(name)} stands twice in one object")
            found[name] = value
        return found

    def no_number(name: str) -> NoReturn:
        raise RequestError(source, f"{name} is not a number that JSON knows")

    try:
        return json.loads(
            content.decode("utf-8-sig"), object_pairs_hook=members, parse_constant=no_number
        )
    except UnicodeDecodeError as error:
        raise RequestError(source, f"byte {error.start} is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RequestError(source, f"{where} is not JSON: {error.msg.lower()}") from error
    except RecursionError as error:
        raise RequestError(source, "arrays and objects are nested too deeply") from error
    except ValueError as error:
        raise RequestError(source, "a number has too many digits") from error
