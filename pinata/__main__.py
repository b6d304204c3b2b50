"""The `pinata` command."""

import os
import sys

import pinata


def main() -> int:
    """Carry out the command line and return the exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"pinata {pinata.__version__}\n")
        return 0
    # Nothing here uses a plugin of pydantic's, and to look for some is to read the metadata of
    # every installed package, at each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # The version is answered without loading anything from outside, so nothing of it is at the top.
    from engine.system import faults  # noqa: PLC0415  (for a fast version)
    from pinata.faces import cli  # noqa: PLC0415  (for a fast version)

    if plan := os.environ.get("PINATA_FAULTS"):
        faults.install(plan)
    return cli.main(arguments, os.environ)


if __name__ == "__main__":
    sys.exit(main())
