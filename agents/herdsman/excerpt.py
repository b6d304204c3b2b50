"""Texts shortened to a number of bytes, never within a character.

What cannot be stored as UTF-8, half of a surrogate pair, shows as a question mark.
"""


def last_bytes(text: str, limit_bytes: int) -> tuple[str, bool]:
    """Return the end of a text, at most so long, and whether it was longer."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return data.decode(), False
    return data[len(data) - limit_bytes :].decode("utf-8", "ignore"), True


def first_bytes(text: str, limit_bytes: int) -> str:
    """Return the beginning of a text, at most so long."""
    return text.encode("utf-8", "replace")[:limit_bytes].decode("utf-8", "ignore")


def without_middle(text: str, limit_bytes: int) -> tuple[str, bool]:
    """Return a text whose middle gives way to a note if it is too long, and whether it was.

    Args:
        text: the whole.
        limit_bytes: how long the result may be with the note; at least 128.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return data.decode(), False
    # What is left out cannot be more than all there is, so the note fits where this one does.
    room = limit_bytes - len(_note(len(data)).encode())
    head = data[: room - room // 2].decode("utf-8", "ignore")
    tail = data[len(data) - room // 2 :].decode("utf-8", "ignore")
    left_out_bytes = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}{_note(left_out_bytes)}{tail}", True


def _note(left_out_bytes: int) -> str:
    return f"\n[... {left_out_bytes} bytes left out ...]\n"
