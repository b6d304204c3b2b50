"""Where symbolic links lead."""

import os
from pathlib import Path


def leads_out(path: Path, limit: Path) -> bool:
    """Return whether `path` lies outside of the folder `limit` once all links are followed; blocks.

    Args:
        path: need not be there.
        limit: a real path, without links.
    """
    return not Path(os.path.realpath(path)).is_relative_to(limit)
