# ruff: noqa: N802 - tests carry the names of their rows
"""The redactor removes any secret in any encoding and split anywhere, and changes no other text (threat G7)."""

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
def test_redactor_removes_a_secret_in_any_encoding(
    secret: str, form: Callable[[str], str], before: str, after: str
) -> None:
    encoded = form(secret)
    redactor = Redactor((Secret(secret),))
    assert encoded not in redactor.redact_text(f"{before}{encoded}{after}")
    assert encoded.encode() not in redactor.redact_bytes(f"{before}{encoded}{after}".encode())
    told = json.loads(redactor.redact_json(encode({"a": f"{before}{encoded}{after}"})))
    assert encoded not in told["a"]


@settings(max_examples=examples(100), deadline=None)
@given(secrets.filter(lambda secret: not set(secret) & set("%&\\")), forms, st.data())
def test_redactor_removes_a_secret_split_over_stream_chunks(
    secret: str, form: Callable[[str], str], data: st.DataObject
) -> None:
    encoded = form(secret)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=4)))
    redactor = Redactor((Secret(secret),))
    pieces = [encoded[start:end] for start, end in zip([0, *cuts], [*cuts, len(encoded)], strict=True)]
    assert encoded not in "".join(map(redactor.redact_next, pieces))


@settings(max_examples=examples(100), deadline=None)
@given(secrets, st.text(max_size=60))
def test_redactor_text_without_the_secret_is_unchanged(secret: str, text: str) -> None:
    redactor = Redactor((Secret(secret),))
    if secret not in text and clean_text(secret) not in text and not redactor.contains_secret(text.encode()):
        assert redactor.redact_text(text) == text
        assert redactor.redact_json(encode([text])) == encode([text])


@given(st.text("defgh %&\\x0123456789ABC", max_size=80))
def test_redactor_escape_like_text_without_the_secret_is_unchanged(text: str) -> None:
    redactor = Redactor((Secret("Zq7-x9_Kw"),))
    assert redactor.redact_text(text) == text
    assert redactor.count == 0


@pytest.mark.threat("K10")
@settings(max_examples=examples(300), deadline=None)
@given(long_secrets, st.sampled_from(list(EVERY)), around, around)
def test_K10_redactor_leaves_nothing_of_a_long_secret_in_any_encoding(
    secret: str, name: str, before: str, after: str
) -> None:
    """In every listed form, in any text: what is left is about as long as what stood around it."""
    encoded = EVERY[name](secret)
    redactor = Redactor((Secret(secret),))
    for seen in (
        redactor.redact_text(f"{before}{encoded}{after}"),
        redactor.redact_bytes(f"{before}{encoded}{after}".encode()).decode(),
        json.loads(redactor.redact_json(encode({"a": [f"{before}{encoded}{after}"]})))["a"][0],
    ):
        assert REDACTED in seen
        assert len(seen.replace(REDACTED, "")) <= len(before) + len(after) + 12
        assert not set(runs(secret)) & set(runs(seen)) - set(runs(before)) - set(runs(after))


def runs(text: str, size: int = 8) -> Iterator[str]:
    return (text[at : at + size] for at in range(len(text) - size + 1))


@pytest.mark.threat("K10")
@settings(max_examples=examples(200), deadline=None)
@given(long_secrets, st.data())
def test_K10_redactor_removes_any_twelve_character_part_of_a_secret(secret: str, data: st.DataObject) -> None:
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
def test_K10_redactor_removes_a_secret_spread_over_the_members_of_a_value(secret: str, data: st.DataObject) -> None:
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
def test_K10_redactor_text_without_any_secret_is_unchanged(text: str, value: Any) -> None:
    """Whatever it is, if it holds nothing of the secret."""
    redactor = Redactor((Secret("Zq7-x9_Kw.v3/ä=Ω%41"), Secret("SK0123456789abcdef")))
    assert redactor.redact_text(text) == text
    assert redactor.redact_bytes(text.encode(errors="replace")) == text.encode(errors="replace")
    assert redactor.redact_json(encode([value])) == encode([value])
    assert redactor.count == 0


small_texts = st.lists(st.sampled_from([*'abcdfgh"\\{}', '":']), min_size=6, max_size=12).map("".join)
small_numbers = st.text("123456789", min_size=8, max_size=12)
small_fractions = st.tuples(st.integers(10, 10**7), st.integers(-16, 32)).map(
    lambda part: str(part[0] * 10.0 ** part[1])
)
small_secrets = (small_texts | small_numbers | small_fractions).filter(
    lambda text: 8 <= len(text) <= 12 and len(set(text)) > 3
)


def small_results(secret: str, at: int) -> Iterator[Any]:
    """Objects and lists that hold little more than the secret."""
    before, after = secret[:at], secret[at:]
    yield from ({secret: 1}, {"": secret}, {"a": secret}, {"": before, "b": after}, {"": [before, after]})
    yield from ([before, {"": after}], [{"": before}, after], {before: {after: secret}})
    if secret.isdigit():
        yield from ({"": int(secret)}, {"": int(before), "b": int(after)}, [int(before), {"": int(after)}])
    elif "." in secret:
        yield from ({"": float(secret)}, {"": [float(secret)]}, [float(secret)])


@pytest.mark.threat("K10")
@settings(max_examples=examples(1000), deadline=None)
@given(small_secrets, st.data())
def test_K10_redactor_finds_a_secret_that_just_fits_into_a_small_result(secret: str, data: st.DataObject) -> None:
    """Results that are too small for a secret are not even decoded: none that hold one may be taken for such."""
    value = data.draw(st.sampled_from([*small_results(secret, data.draw(st.integers(1, len(secret) - 1)))]))
    redacted = Redactor((Secret(secret),)).redact_json(encode(value))
    assert REDACTED.encode() in redacted
    assert redacted == encode(Redactor((Secret(secret),)).redact_value(value))
