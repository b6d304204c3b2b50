"""Measure everything, print a table and write `bench-results.json`."""

import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path

import trio

import pinata
from benchmarks import (
    agents,
    apply,
    git,
    herd,
    host,
    lag,
    lending,
    machine,
    pi_agents,
    process,
    repository,
    scheduler,
    start,
    status,
)
from benchmarks.figure import Figure

_MODULES = {
    "start": start,
    "status": status,
    "scheduler": scheduler,
    "machine": machine,
    "process": process,
    "agents": agents,
    "pi_agents": pi_agents,
    "repository": repository,
    "apply": apply,
    "git": git,
    "host": host,
    "herd": herd,
    "lending": lending,
    "lag": lag,
}
_RESULTS = Path("bench-results.json")


def main() -> int:
    """Return 0 when every promised number holds; arguments choose modules by name.

    `--full` adds the sizes that take minutes.
    """
    chosen = [name for name in sys.argv[1:] if name != "--full"] or list(_MODULES)
    print(
        f"pinata {pinata.__version__}, {platform.python_implementation()} "
        f"{platform.python_version()}, {platform.system()}"
    )
    print(f"{'what':<44}{'measured':>14}{'plain':>12}{'ratio':>8}{'promised':>10}")
    found: list[Figure] = []
    for name in chosen:
        for figure in trio.run(_MODULES[name].figures):
            found.append(figure)
            print(_row(figure), flush=True)
    results = [{**asdict(each), "ratio": each.ratio, "holds": each.holds} for each in found]
    _RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    return 0 if all(figure.holds for figure in found) else 1


def _row(figure: Figure) -> str:
    plain = "" if figure.baseline is None else f"{figure.baseline:.2f} {figure.unit}"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    promised = f"{figure.limit:g} x" if figure.baseline else f"{figure.limit:g} {figure.unit}"
    value = f"{figure.value:.2f} {figure.unit}"
    late = "" if figure.holds else "  missed"
    return f"{figure.name:<44}{value:>14}{plain:>12}{ratio:>8}{promised:>10}{late}"


if __name__ == "__main__":
    sys.exit(main())
