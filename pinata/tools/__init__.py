"""The tool registry: per tool one request model, one handler and one description."""
