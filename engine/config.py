"""Layered configuration: the user's file, the project's file, then what a run asks for."""

from engine.records.config import ConfigLayer, decode_config
from engine.records.json_text import decode_json


def decode_config_file(content: bytes, source: str) -> ConfigLayer:
    """Return the layer that a configuration file describes.

    Args:
        content: the file's bytes.
        source: the file's name, for messages and notices.

    Raises:
        RequestError: it is not JSON, or a key or a value does not fit; names file and key.
    """
    return decode_config(decode_json(content, source), place=source)
