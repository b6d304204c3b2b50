import pytest
from hypothesis import assume, given, strategies as st

from agents.filetools.arguments import Edit
from agents.filetools.replacement import replace_texts
from agents.filetools.tool import ToolFaultError

texts = st.lists(st.sampled_from(["a", "b", "é", "\n", "\r\n", "\r"]), max_size=12).map("".join)


def edit(old: str, new: str) -> Edit:
    return Edit(oldText=old, newText=new)


@given(texts, texts, texts.filter(lambda new: "\r\r" not in new))
def test_what_stands_around_a_replaced_text_stays_byte_for_byte(
    before: str, after: str, new: str
) -> None:
    # A line end that is half in one part and half in the next is one line end, not two halves.
    assume(not (after.startswith("\n") or before.endswith("\r")))
    changed = replace_texts(f"{before}OLD{after}", [edit("OLD", f"<{new}>")], "it")
    assert changed.startswith(f"{before}<")
    assert changed.endswith(f">{after}")
    inside = changed.removeprefix(f"{before}<").removesuffix(f">{after}")
    assert inside.replace("\r\n", "\n") == new.replace("\r\n", "\n")


@given(texts, texts)
def test_the_order_of_edits_makes_no_difference(first: str, second: str) -> None:
    edits = [edit("ONE", first + "1"), edit("TWO", second + "2")]
    for text in ("ONETWO", "TWO\r\nONE", "\nTWO ONE\r\n"):
        assert replace_texts(text, edits, "it") == replace_texts(text, edits[::-1], "it")


@given(texts, texts)
def test_what_fits_in_several_places_or_none_is_refused(text: str, old: str) -> None:
    plain, wanted = text.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    places = [at for at in range(len(plain)) if plain.startswith(wanted, at)] if wanted else []
    if len(places) == 1:
        assert "NEW" in replace_texts(text, [edit(old, "NEW")], "it")
    else:
        with pytest.raises(ToolFaultError, match="nothing was changed in it: edits"):
            replace_texts(text, [edit(old, "NEW")], "it")
