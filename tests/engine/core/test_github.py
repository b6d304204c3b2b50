import pytest

from engine.core.github import Hosted, hosted_at, hosted_pull_request, is_branch_name

SHOP = Hosted("github.com", "example", "shop")
PAGE = "https://github.com/example/shop/pull/7"


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/example/shop",
        "https://github.com/example/shop.git",
        "https://github.com/example/shop.git/",
        "https://GitHub.com:443/example/shop.git",
        "https://someone:secret@github.com/example/shop.git",
        "ssh://git@github.com/example/shop.git",
        "ssh://git@ssh.github.com:443/example/shop.git",
        "git@github.com:example/shop.git",
        "git@github.com:/example/shop",
        "github.com:example/shop",
    ],
)
def test_every_form_of_an_address_leads_to_the_repository(address: str) -> None:
    assert hosted_at(address) == SHOP


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/srv/git/shop.git",
        "../shop",
        "file:///srv/git/example/shop",
        "http://github.com/example/shop",
        "git://github.com/example/shop.git",
        "ext::sh -c touch% /tmp/owned",
        "--upload-pack=touch /tmp/owned",
        "https://github.com/example",
        "https://github.com/example/shop/tree",
        "https://github.com/-example/shop",
        "https://github.com/example/-shop",
        "https://-oProxyCommand=x/example/shop",
        "https://github.com/example/.git",
        "https://github.com/example/..",
        "https://github.com/example/shop\n",
        "git@github.com:example/shop other",
    ],
)
def test_an_address_of_another_form_leads_nowhere(address: str) -> None:
    assert hosted_at(address) is None


@pytest.mark.parametrize(
    ("address", "is_same"),
    [
        ("git@github.com:Example/SHOP.git", True),
        ("git@work:example/shop.git", True),
        ("https://git.example.org/example/shop", False),
        ("https://github.com/example/shops", False),
        ("https://github.com/examples/shop", False),
    ],
)
def test_a_repository_is_the_same_under_its_name_on_its_host_or_an_alias(
    address: str, *, is_same: bool
) -> None:
    found = hosted_at(address)
    assert found is not None
    assert found.is_same(SHOP) is is_same
    assert SHOP.is_same(found) is is_same


def test_the_page_of_a_pull_request_names_its_repository() -> None:
    assert hosted_pull_request(PAGE, 7) == SHOP
    assert SHOP.url == "https://github.com/example/shop.git"
    company = hosted_pull_request("https://git.example.org:8443/example/shop/pull/7", 7)
    assert company is not None
    assert company.url == "https://git.example.org:8443/example/shop.git"
    assert company.is_same(Hosted("git.example.org", "example", "shop"))


@pytest.mark.parametrize(
    "page",
    [
        "https://github.com/example/shop/pull/8",
        "https://github.com/example/shop/pull/07",
        "https://github.com/example/shop/pull/7/files",
        "https://github.com/example/shop/issues/7",
        "https://someone@github.com/example/shop/pull/7",
        "http://github.com/example/shop/pull/7",
        "ext::sh -c true /example/shop/pull/7",
        "--upload-pack=x/example/shop/pull/7",
        "https://github.com/example/../pull/7",
    ],
)
def test_another_page_names_none(page: str) -> None:
    assert hosted_pull_request(page, 7) is None


@pytest.mark.parametrize("name", ["main", "release/1.0", "fix#7", "größer", "a@b", "a-"])
def test_names_that_git_takes_are_branch_names(name: str) -> None:
    assert is_branch_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *["", "-", "--upload-pack=x", "/a", "a/", "a//b", "a..b", ".a", "a/.b", "a.", "a.lock"],
        *["a.lock/b", "@", "a@{1}", "a b", "a\tb", "a\x7f", "a~1", "a^", "a:b", "a?", "a*", "a["],
        *["a\\b", "a" * 256],
    ],
)
def test_names_that_git_refuses_or_takes_for_more_are_none(name: str) -> None:
    assert not is_branch_name(name)
