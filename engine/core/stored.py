"""How values that are stored as they are want to be read back."""

# As a value's `__pydantic_config__`, which the core itself has no use for: whoever reads a stored
# form takes exactly its fields and converts nothing.
STORED = {"extra": "forbid", "strict": True}
