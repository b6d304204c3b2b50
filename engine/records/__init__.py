"""Stored and wire forms, one module per noun; the only part of the engine that knows pydantic."""
