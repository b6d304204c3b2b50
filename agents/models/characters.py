"""Text that any file and any connection can carry."""


def whole_characters(text: str) -> str:
    """Return `text` with halves of surrogate pairs, which no file can hold, replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
