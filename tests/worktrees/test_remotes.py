from pathlib import Path

import pytest

from engine.core.errors import ConflictError
from engine.core.github import Hosted
from tests.support.repos import RepoBuilder
from worktrees.remotes import find_address, protocol_of

SHOP = Hosted("github.com", "example", "shop")


@pytest.mark.parametrize(
    ("remotes", "found"),
    [
        ([], "https://github.com/example/shop.git"),
        (["https://github.com/someone/shop"], "https://github.com/example/shop.git"),
        (["/srv/shop", "git@github.com:example/shop.git"], "git@github.com:example/shop.git"),
        (["git@work:example/shop"], "git@work:example/shop"),
        (
            ["git@work:example/shop", "https://github.com/Example/Shop"],
            "https://github.com/Example/Shop",
        ),
    ],
    ids=["none", "fork", "ssh", "alias", "own host first"],
)
async def test_the_users_own_way_to_a_repository_is_taken(
    repo: RepoBuilder, remotes: list[str], found: str
) -> None:
    for number, address in enumerate(remotes):
        repo.git("remote", "add", f"remote-{number}", address)
    assert await find_address(await repo.discovered(), SHOP) == found


@pytest.mark.parametrize(
    ("address", "protocol"),
    [
        ("https://github.com/example/shop", "https"),
        ("ssh://git@github.com/example/shop", "ssh"),
        ("git@github.com:example/shop", "ssh"),
        ("file:///srv/shop", "file"),
        ("/srv/shop", "file"),
        ("mirror:shop", "file"),
    ],
)
async def test_what_git_would_speak_is_known_before_it_does(
    repo: RepoBuilder, address: str, protocol: str
) -> None:
    repo.git("config", "url./srv/.insteadOf", "mirror:")
    assert await protocol_of(await repo.discovered(), address) == protocol


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c 'touch owned'",
        "http://github.com/example/shop",
        "--upload-pack=touch owned",
        "git://github.com/example/shop",
        "turned:shop",
    ],
)
async def test_an_address_that_starts_something_else_is_refused_and_not_shown(
    repo: RepoBuilder, tmp_path: Path, address: str
) -> None:
    repo.git("config", "url.ext::touch owned .insteadOf", "turned:")
    with pytest.raises(ConflictError, match="none of https, of ssh or of a folder") as caught:
        await protocol_of(await repo.discovered(), address)
    assert "touch" not in str(caught.value)
    assert not (repo.root / "owned").exists()
