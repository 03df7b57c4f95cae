"""Whatever the secret, the form and the cut: it is never told; and what holds no secret stays as it is (threat G7)."""

import json
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.runners.disguised import EVERY
from toolhall.model.json import encode
from toolhall.model.secret import Secret
from toolhall.model.text import clean_text
from toolhall.runners.redactor import Redactor

letters = st.sampled_from("abcXYZ0189-_./+=~%&\"'<>\\ äß漢😀")
secrets = st.text(letters, min_size=6, max_size=16).filter(lambda text: len(set(text)) > 3)
forms = st.sampled_from(list(EVERY.values()))
around = st.text("hijk HIJK 567,;:(){}\n", max_size=30)


@settings(max_examples=100, deadline=None)
@given(secrets, forms, around, around)
def test_it_is_never_told(secret: str, form: Callable[[str], str], before: str, after: str) -> None:
    disguised = form(secret)
    hides = Redactor((Secret(secret),))
    assert disguised not in hides.text(f"{before}{disguised}{after}")
    assert disguised.encode() not in hides.data(f"{before}{disguised}{after}".encode())
    told = json.loads(hides.json(encode({"a": f"{before}{disguised}{after}"})))
    assert disguised not in told["a"]


@settings(max_examples=100, deadline=None)
@given(secrets.filter(lambda secret: not set(secret) & set("%&\\")), forms, st.data())
def test_nor_in_pieces(secret: str, form: Callable[[str], str], data: st.DataObject) -> None:
    disguised = form(secret)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(disguised)), max_size=4)))
    hides = Redactor((Secret(secret),))
    pieces = [disguised[start:end] for start, end in zip([0, *cuts], [*cuts, len(disguised)], strict=True)]
    assert disguised not in "".join(map(hides.next, pieces))


@settings(max_examples=100, deadline=None)
@given(secrets, st.text(max_size=60))
def test_a_text_without_it_stays_as_it_is(secret: str, text: str) -> None:
    hides = Redactor((Secret(secret),))
    if secret not in text and clean_text(secret) not in text and not hides.finds(text.encode()):
        assert hides.text(text) == text
        assert hides.json(encode([text])) == encode([text])


@given(st.text("defgh %&\\x0123456789ABC", max_size=80))
def test_other_texts_in_the_letters_of_escapes_are_not_taken_for_it(text: str) -> None:
    hides = Redactor((Secret("Zq7-x9_Kw"),))
    assert hides.text(text) == text
    assert hides.count == 0
