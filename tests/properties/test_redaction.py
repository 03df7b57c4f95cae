"""Whatever stands under the name of a secret, no part of it is in what is recorded."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import tool_named
from toolhall.model.json import encode
from toolhall.pipeline.call_recorder import ToolSecrecy

# Every canary is one of a kind, and is no part of the word that stands in for it.
CANARIES = st.integers(0, 2**64).map(lambda number: f"canary{number:020d}")
WORDS = st.text('abcxyz ./~-é\u202e"\\', max_size=6)
PARTS = st.sampled_from(
    ["password", "pass word", "secret", "token", "api key", "authorization", "cookie", "credential", "private key"]
)
BEFORE = st.sampled_from(["", "user ", "x ", "my ", "db "])
AFTER = st.sampled_from(["", " value", " 2", " of the day"])


def _camel(text: str) -> str:
    first, *others = text.split(" ")
    return first + "".join(word.title() for word in others)


def _spelled(parts: tuple[str, str, str], case: Callable[[str], str], mark: str) -> str:
    return case("".join(parts)).replace(" ", mark)


CASES = st.sampled_from([str.upper, str.title, str.lower, _camel])
MARKS = st.sampled_from([" ", "_", "-", ".", "", "__", "\u200b"])
NAMES = st.builds(_spelled, st.tuples(BEFORE, PARTS, AFTER), CASES, MARKS)
SECRETS = st.recursive(
    CANARIES,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(WORDS, inner, min_size=1, max_size=3),
    max_leaves=4,
)


def holding(secret: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of any shape with the secret somewhere inside."""
    plain = st.none() | st.booleans() | st.integers() | WORDS
    return st.recursive(
        st.just(secret),
        lambda inner: (
            st.tuples(st.lists(plain, max_size=2), inner).map(lambda both: [*both[0], both[1]])
            | st.tuples(st.dictionaries(WORDS, plain, max_size=2), WORDS, inner).map(
                lambda three: {**three[0], three[1]: three[2]}
            )
        ),
        max_leaves=5,
    )


def canaries(value: Any) -> list[str]:
    match value:
        case dict():
            return [found for each in value.values() for found in canaries(each)]
        case list():
            return [found for each in value for found in canaries(each)]
        case _:
            return [value]


@given(NAMES, SECRETS, st.data(), st.booleans())
def test_call_recorder_value_under_a_secret_name_is_nowhere_in_the_record(
    name: str, secret: Any, data: st.DataObject, answered: bool
) -> None:
    value = data.draw(holding({name: secret}))
    echo = {"said": [f"<{each}>" for each in canaries(secret)], canaries(secret)[0]: 1}
    arguments, answer = (echo, {"value": value}) if answered else ({"a": value}, {"value": echo})
    shown = ToolSecrecy.of(tool_named("pick")).redact_call(arguments, answer)
    written = encode(shown)
    for each in canaries(secret):
        assert each.encode() not in written
    assert shown.redacted
