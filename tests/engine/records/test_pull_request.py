import json

import pytest

from engine.core.errors import ExternalError
from engine.core.github import Hosted
from engine.core.ids import CommitId
from engine.core.subject import PullRequest
from engine.records.pull_request import FIELDS, PullRequestFacts, decode_pull_request

PAGE = "https://github.com/example/shop/pull/7"
HEAD = "0123456789abcdef0123456789abcdef01234567"


def answer(**fields: object) -> bytes:
    given = {
        "number": 7,
        "title": "Round halves up",
        "url": PAGE,
        "headRefOid": HEAD,
        "baseRefName": "main",
    }
    return json.dumps(given | fields).encode()


def test_an_answer_is_read_and_what_was_not_asked_for_is_passed_over() -> None:
    assert decode_pull_request(answer(state="OPEN"), 7) == PullRequestFacts(
        shown=PullRequest(7, "Round halves up", PAGE),
        repository=Hosted("github.com", "example", "shop"),
        branch="main",
        head=CommitId(HEAD),
    )
    assert FIELDS == ("number", "title", "url", "headRefOid", "baseRefName")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the whole: invalid json"),
        (b"not logged in\n", "the whole: invalid json"),
        (b"[" * 100_000, "the whole: "),
        (b"[]", "the whole: input should be an object"),
        (b'{"number": 7}', "title: field required"),
        (answer(number="7"), "number: input should be a valid integer"),
        (answer(number=8), "number: it is about 8"),
        (answer(title=None), "title: input should be a valid string"),
        (answer(url="ext::sh -c 'touch owned'"), "url: \"ext::sh -c 'touch owned'\" is not"),
        (answer(url="--upload-pack=touch owned"), 'url: "--upload-pack=touch owned" is not'),
        (answer(url="https://github.com/example/shop/pull/8"), "is not the page of this"),
        (answer(url=PAGE + "x" * 3000), "url: string should have at most 2000"),
        (answer(headRefOid="HEAD"), 'headRefOid: "HEAD" is not a commit'),
        (answer(headRefOid=HEAD + "\n"), "headRefOid: "),
        (answer(headRefOid=HEAD.upper()), "headRefOid: "),
        (answer(baseRefName="--upload-pack=x"), 'baseRefName: "--upload-pack=x" is not the name'),
        (answer(baseRefName="main:refs/heads/main"), "baseRefName: "),
        (answer(baseRefName="*"), "baseRefName: "),
    ],
)
def test_an_answer_that_cannot_be_meant_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ExternalError, match="the answer of gh is not one about a pull") as caught:
        decode_pull_request(data, 7)
    assert said in str(caught.value)


def test_a_title_is_one_line_that_a_terminal_shows() -> None:
    facts = decode_pull_request(answer(title="a\nb\x1b[31m" + "c" * 400), 7)
    assert facts.shown.title.startswith(r"a b\x1b[31mccc")
    assert len(facts.shown.title) == 300
    assert facts.shown.title.endswith("…")
