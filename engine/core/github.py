"""How a repository on GitHub is called in the addresses that lead to it."""

import re
from dataclasses import dataclass

_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]*"
_OWNER = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_NAME = r"[A-Za-z0-9._][A-Za-z0-9._-]*"
_REPOSITORY = rf"(?P<owner>{_OWNER})/(?P<name>{_NAME})"

_HTTPS = re.compile(rf"https://(?:[^/@\s]+@)?(?P<host>{_HOST})(?::\d+)?/{_REPOSITORY}/?")
_SSH = re.compile(rf"ssh://(?:[^/@\s]+@)?(?P<host>{_HOST})(?::\d+)?/{_REPOSITORY}/?")
_SCP = re.compile(rf"(?:[^/@:\s]+@)?(?P<host>{_HOST}):/?{_REPOSITORY}/?")
_PULL_REQUEST = re.compile(
    rf"https://(?P<host>{_HOST}(?::\d+)?)/{_REPOSITORY}/pull/(?P<number>\d+)"
)

# GitHub's other door, for networks that let nothing but HTTPS through.
_OTHER_HOSTS = {"ssh.github.com": "github.com"}

# What git-check-ref-format(1) forbids in a name.
_FORBIDDEN = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/@]$|^[-/]|/$|\.$|(?:^|/)\.|\.lock(?:/|$)"
)
_MAX_BRANCH_CHARS = 255


@dataclass(frozen=True, slots=True)
class Hosted:
    """A repository on a host.

    Attributes:
        host: in lower case, with its port only where it is part of a page's address.
        owner: as written.
        name: as written, without `.git`.
    """

    host: str
    owner: str
    name: str

    @property
    def url(self) -> str:
        """Where Git finds it without an account."""
        return f"https://{self.host}/{self.owner}/{self.name}.git"

    def is_same(self, other: "Hosted") -> bool:
        """Whether both names mean one repository; letters may differ in case.

        A host without a dot is a name that the user gave to GitHub in the configuration of ssh.
        """
        mine, theirs = self.host.partition(":")[0], other.host.partition(":")[0]
        return (
            (self.owner.lower(), self.name.lower()) == (other.owner.lower(), other.name.lower())
        ) and (mine == theirs or "." not in mine or "." not in theirs)


def hosted_at(address: str) -> Hosted | None:
    """Return the repository that the address of a remote leads to, None when it is of no such form.

    The forms are those that hosts offer: https, ssh, and ssh as in scp(1).
    """
    for form in (_HTTPS, _SSH, _SCP):
        if found := form.fullmatch(address):
            return _hosted(found)
    return None


def hosted_pull_request(address: str, number: int) -> Hosted | None:
    """Return the repository of a pull request's page, None when it is not the page of `number`."""
    found = _PULL_REQUEST.fullmatch(address)
    if found is None or found["number"] != str(number):
        return None
    return _hosted(found)


def _hosted(found: re.Match[str]) -> Hosted | None:
    name = found["name"].removesuffix(".git")
    if name in {"", ".", ".."}:
        return None
    host = found["host"].lower()
    return Hosted(_OTHER_HOSTS.get(host, host), found["owner"], name)


def is_branch_name(name: str) -> bool:
    """Whether `name` can be a branch on a host: it fits a ref, and is no option of a program."""
    return 0 < len(name) <= _MAX_BRANCH_CHARS and _FORBIDDEN.search(name) is None
