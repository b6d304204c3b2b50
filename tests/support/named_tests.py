"""Whether a test that a table names is there; nothing is imported to find out."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def exists(test: str) -> bool:
    """Return whether `tests/...py::test_name` names a test function of that module."""
    path, _, name = test.partition("::")
    return name.startswith("test_") and name in _functions(path)


@cache
def _functions(path: str) -> frozenset[str]:
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))
