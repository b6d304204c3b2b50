"""Pinata runs graphs of coding agents and lets only reviewed changes into a checkout.

Importing this package puts its parts (`engine`, `worktrees`, `checks`, `agents`) first on the
import path: from `_parts` beside this file when pinata was installed from a wheel, else from the
project's root. So an installed pinata never overwrites another package called `agents`, and never
takes it for its own. Pinata is a program: a process that has already imported another `agents`
cannot embed it.
"""

import sys
from pathlib import Path

__version__ = "0.1.0"


def _parts_folder() -> str:
    here = Path(__file__).resolve().parent
    installed = here / "_parts"
    return str(installed if installed.is_dir() else here.parent)


if sys.path[:1] != [_parts_folder()]:
    sys.path.insert(0, _parts_folder())
