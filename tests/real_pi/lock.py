"""Takes the addresses out of a package lock: names, versions and digests say what is meant."""

import json
import sys
from pathlib import Path


def without_addresses(lock: dict[str, object]) -> dict[str, object]:
    """Return the lock without the places that packages come from or ask for money at."""
    packages = lock["packages"]
    assert isinstance(packages, dict)
    for package in packages.values():
        for field in ("resolved", "funding"):
            package.pop(field, None)
    return lock


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(json.dumps(without_addresses(json.loads(path.read_text())), indent=2) + "\n")
