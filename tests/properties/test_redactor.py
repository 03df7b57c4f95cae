# ruff: noqa: N802 - tests carry the names of their rows
"""Whatever the secret, the form and the cut: it is never told; and what holds no secret stays as it is (threat G7)."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.unit.redaction.secret_encodings import CASES, EVERY
from toolhall.model.json import encode
from toolhall.model.secret import Secret
from toolhall.model.text import clean_text
from toolhall.redaction.redactor import Redactor
from toolhall.redaction.secret_patterns import REDACTED

letters = st.sampled_from("abcXYZ0189-_./+=~%&\"'<>\\ äß漢😀")
secrets = st.text(letters, min_size=6, max_size=16).filter(lambda text: len(set(text)) > 3)
long_secrets = st.text(letters, min_size=12, max_size=48).filter(lambda text: len(set(text)) > 8)
forms = st.sampled_from([form for name, form in EVERY.items() if name not in CASES])
around = st.text("hijk HIJK 567,;:(){}\n", max_size=30)


@settings(max_examples=examples(100), deadline=None)
@given(secrets, forms, around, around)
def test_it_is_never_told(secret: str, form: Callable[[str], str], before: str, after: str) -> None:
    disguised = form(secret)
    hides = Redactor((Secret(secret),))
    assert disguised not in hides.redact_text(f"{before}{disguised}{after}")
    assert disguised.encode() not in hides.redact_bytes(f"{before}{disguised}{after}".encode())
    told = json.loads(hides.redact_json(encode({"a": f"{before}{disguised}{after}"})))
    assert disguised not in told["a"]


@settings(max_examples=examples(100), deadline=None)
@given(secrets.filter(lambda secret: not set(secret) & set("%&\\")), forms, st.data())
def test_nor_in_pieces(secret: str, form: Callable[[str], str], data: st.DataObject) -> None:
    disguised = form(secret)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(disguised)), max_size=4)))
    hides = Redactor((Secret(secret),))
    pieces = [disguised[start:end] for start, end in zip([0, *cuts], [*cuts, len(disguised)], strict=True)]
    assert disguised not in "".join(map(hides.redact_next, pieces))


@settings(max_examples=examples(100), deadline=None)
@given(secrets, st.text(max_size=60))
def test_a_text_without_it_stays_as_it_is(secret: str, text: str) -> None:
    hides = Redactor((Secret(secret),))
    if secret not in text and clean_text(secret) not in text and not hides.contains_secret(text.encode()):
        assert hides.redact_text(text) == text
        assert hides.redact_json(encode([text])) == encode([text])


@given(st.text("defgh %&\\x0123456789ABC", max_size=80))
def test_other_texts_in_the_letters_of_escapes_are_not_taken_for_it(text: str) -> None:
    hides = Redactor((Secret("Zq7-x9_Kw"),))
    assert hides.redact_text(text) == text
    assert hides.count == 0


@pytest.mark.threat("K10")
@settings(max_examples=examples(300), deadline=None)
@given(long_secrets, st.sampled_from(list(EVERY)), around, around)
def test_K10_nothing_of_it_remains_in_any_form(secret: str, name: str, before: str, after: str) -> None:
    """In every listed form, in any text: what is left is about as long as what stood around it."""
    disguised = EVERY[name](secret)
    hides = Redactor((Secret(secret),))
    for seen in (
        hides.redact_text(f"{before}{disguised}{after}"),
        hides.redact_bytes(f"{before}{disguised}{after}".encode()).decode(),
        json.loads(hides.redact_json(encode({"a": [f"{before}{disguised}{after}"]})))["a"][0],
    ):
        assert REDACTED in seen
        assert len(seen.replace(REDACTED, "")) <= len(before) + len(after) + 12
        assert not set(runs(secret)) & set(runs(seen)) - set(runs(before)) - set(runs(after))


def runs(text: str, size: int = 8) -> Iterator[str]:
    return (text[at : at + size] for at in range(len(text) - size + 1))


@pytest.mark.threat("K10")
@settings(max_examples=examples(200), deadline=None)
@given(long_secrets, st.data())
def test_K10_nor_any_run_of_twelve_characters(secret: str, data: st.DataObject) -> None:
    """Of a longer secret, in any case."""
    start = data.draw(st.integers(0, len(secret) - 12))
    end = data.draw(st.integers(start + 12, len(secret)))
    changes: list[Callable[[str], str]] = [lambda text: text, str.upper, str.lower]
    run = data.draw(st.sampled_from(changes))(secret[start:end])
    seen = Redactor((Secret(secret),)).redact_text(f"hijk({run})HIJK")
    if len(set(secret[start:end].lower())) > 8:
        assert run not in seen
        assert seen.startswith("hijk(")
        assert seen.endswith(")HIJK")


@pytest.mark.threat("K10")
@settings(max_examples=examples(200), deadline=None)
@given(long_secrets, st.data())
def test_K10_nor_when_it_is_spread_over_the_members_of_a_value(secret: str, data: st.DataObject) -> None:
    """Items of a list, members of an object, and characters or bytes one by one."""
    cuts = sorted({0, *data.draw(st.lists(st.integers(1, len(secret) - 1), max_size=6)), len(secret)})
    pieces = [secret[start:end] for start, end in pairwise(cuts)]
    made: Any = data.draw(
        st.sampled_from(
            [
                ["hijk", *pieces, 5],
                {"a": {f"k{at}": piece for at, piece in enumerate(pieces)}, "b": "HIJK"},
                list(secret),
                [1, "x", *secret.encode(), None, 2],
                {str(at): byte for at, byte in enumerate(secret.encode("utf-16-le"))},
                [[ord(letter)] for letter in secret],
            ]
        )
    )
    seen = json.loads(Redactor((Secret(secret),)).redact_json(encode(made)))
    left = "".join(str(leaf) for leaf in leaves(seen))
    assert secret not in left
    assert not set(runs(secret)) & set(runs(left))
    assert REDACTED in left


def leaves(value: Any) -> Iterator[Any]:
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            yield from leaves(part)
        else:
            yield part


@pytest.mark.threat("K10")
@settings(max_examples=examples(300), deadline=None)
@given(st.text(max_size=200), st.recursive(st.text(max_size=20) | st.integers() | st.none(), st.lists, max_leaves=20))
def test_K10_innocent_text_is_unchanged(text: str, value: Any) -> None:
    """Whatever it is, if it holds nothing of the secret."""
    hides = Redactor((Secret("Zq7-x9_Kw.v3/ä=Ω%41"), Secret("SK0123456789abcdef")))
    assert hides.redact_text(text) == text
    assert hides.redact_bytes(text.encode(errors="replace")) == text.encode(errors="replace")
    assert hides.redact_json(encode([value])) == encode([value])
    assert hides.count == 0
