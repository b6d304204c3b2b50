"""The `pinata` command."""

import sys
from collections.abc import Sequence

import pinata


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer `--version` and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        sys.stdout.write(f"pinata {pinata.__version__}\n")
        return 0
    sys.stderr.write("usage: pinata --version\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
