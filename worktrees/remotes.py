"""Where a repository on a host can be fetched from, as the user has it configured."""

from engine.core.errors import ConflictError
from engine.core.github import Hosted, hosted_at
from worktrees.hygiene import Repository, git

_REMOTE_URLS = r"^remote\..*\.url$"


async def find_address(repo: Repository, wanted: Hosted) -> str:
    """Return the address of the user's remote that is `wanted`, else the public one.

    A remote on the very host wins over one behind a name that only the user's ssh knows; among
    equals the first in the configuration does. With a remote comes the way in that the user has.
    """
    listing = await git(repo, "config", "--null", "--get-regexp", _REMOTE_URLS, ok=(0, 1))
    entries = listing.decode("utf-8", "surrogateescape").split("\0")
    addresses = [value for _, _, value in (entry.partition("\n") for entry in entries)]
    found = [(hosted_at(address), address) for address in addresses]
    same = [(hosted, address) for hosted, address in found if hosted and hosted.is_same(wanted)]
    same.sort(key=lambda each: each[0].host != wanted.host)
    return same[0][1] if same else wanted.url


async def protocol_of(repo: Repository, address: str) -> str:
    """Return what Git speaks with `address`: `https`, `ssh` or `file`.

    What counts is the address that the user's `url.*.insteadOf` makes of it.

    Raises:
        ConflictError: it is another one.
    """
    # Answered from the configuration alone.
    asked = await git(repo, "ls-remote", "--get-url", "--end-of-options", address)
    real = asked.decode("utf-8", "surrogateescape").removesuffix("\n")
    scheme, is_url, _ = real.partition("://")
    if is_url and scheme in {"https", "ssh", "file"}:
        return scheme
    if real.startswith("/"):
        return "file"
    if not is_url and hosted_at(real) is not None:
        return "ssh"
    # It is not shown: it may hold a password.
    raise ConflictError("the address of its repository is none of https, of ssh or of a folder")
