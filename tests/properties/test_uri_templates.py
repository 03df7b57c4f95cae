"""URI templates: what was expanded matches back to the same values, and what matches expands back to the same URI."""

import re
from typing import NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate, UriVariables, is_inner_path
from toolhall.registry.uri_index import UriIndex

# Characters with a meaning somewhere, and some of each kind that have none.
CHARACTERS = "ab7-._~%/?#&=;,:@!+$'()*[] \"<>{}|\\^`äß漢😀\n\x7f"
texts = st.text(CHARACTERS, max_size=8) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
literals = st.sampled_from(["/", "/b/", "/v", ",", ":", "@", "/.", "/~", "-/", "&c=", "!", "/%20/", "=", "/ü/"])
# Literals that a value can have as well, so that not every value comes back.
unclear_literals = st.sampled_from([".", "-", "b", "~", "2C", "%41", "a", "7"])


class Generated(NamedTuple):
    """A template, the kind of each of its variables, and whether every value comes back."""

    text: str
    kinds: dict[str, str]
    clear: bool


@st.composite
def templates(draw: st.DrawFn) -> Generated:
    """Templates whose variables are separated, with at most one that spans segments."""
    text, kinds, clear = draw(st.sampled_from(["s:", "s://", "s://h", "s://h/"])), dict[str, str](), True
    count = draw(st.integers(0, 4))
    spanning = draw(st.integers(0, count))
    for index in range(count):
        name = f"v{index}"
        signs = ["+", "#", "/*"] if index == spanning else ["", "/", ".", ";", ",", "/,"]
        sign = draw(st.sampled_from(signs))
        if index and (sign == "" or index in {spanning, spanning + 1} or sign == ","):
            unclear = draw(st.integers(0, 3)) == 0
            clear = clear and not unclear
            literal = draw(unclear_literals if unclear else literals)
            clear = clear and not (literal == "=" and kinds[f"v{index - 1}"] == ";")  # `;v=` is an empty value, too
            text += literal
        clear = clear and not (sign == "." and index)
        kinds[name] = sign
        if sign.endswith(","):
            kinds[f"w{index}"] = sign
            text += f"{{{sign[:-1]}{name},w{index}}}"
        else:
            text += f"{{{sign.rstrip('*')}{name}{'*' if '*' in sign else ''}}}"
    text += draw(st.sampled_from(["", "/", "/end", ".txt"]))
    queries = draw(st.lists(st.sampled_from(["q", "r", "s"]), unique=True, max_size=3))
    if queries and "?" not in text:
        fixed = draw(st.sampled_from(["", "?f=1", "?f=1&g=2"]))
        text += f"{fixed}{{{'&' if fixed else '?'}{','.join(queries)}}}"
        kinds |= dict.fromkeys(queries, "?")
    return Generated(text, kinds, clear)


def value_of(kind: str, *, has_query: bool) -> st.SearchStrategy[str | list[str]]:
    """Values of one kind of variable that come back: see the theory of operation of `uri_template`."""
    if kind == "/*":
        return st.lists(texts, min_size=1, max_size=4).filter(lambda value: is_inner_path("/".join(value)))
    if kind in ("+", "#"):  # a triplet stays as it is when it is expanded
        paths = texts.filter(lambda value: is_inner_path(value) and not re.search("%[0-9A-Fa-f]{2}", value))
        return paths.filter(lambda value: "?" not in value) if has_query else paths
    return texts


@st.composite
def expansions(draw: st.DrawFn) -> tuple[Generated, UriTemplate, UriVariables]:
    generated = draw(templates())
    has_query = "?" in generated.kinds.values()
    values: UriVariables = {
        name: draw(value_of(kind, has_query=has_query))
        for name, kind in generated.kinds.items()
        if kind != "?" or draw(st.booleans())
    }
    return generated, UriTemplate(generated.text), values


@pytest.mark.requirement("RT-10")
@settings(max_examples=examples(10_000), deadline=None)
@given(expansions())
def test_expanded_uris_match_back(expansion: tuple[Generated, UriTemplate, UriVariables]) -> None:
    generated, template, values = expansion
    uri = template.expand(values)
    matched = template.match(uri)
    if generated.clear:
        assert matched == values
    elif matched is not None:
        assert template.match(template.expand(matched)) == matched


@pytest.mark.requirement("RT-10")
@settings(max_examples=examples(3_000), deadline=None)
@given(expansions(), st.data())
def test_matching_uris_expand_back(expansion: tuple[Generated, UriTemplate, UriVariables], data: st.DataObject) -> None:
    """Whatever is done to a URI: if it still matches, its values name a URI that has exactly these values."""
    _, template, values = expansion
    uri = template.expand(values)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(uri)))
        until = data.draw(st.integers(at, min(at + 2, len(uri))))
        uri = (
            uri[:at] + data.draw(st.sampled_from([*CHARACTERS, "%2F", "%2e", "%25", "%C3", "&q=1", "?r"])) + uri[until:]
        )
    matched = template.match(uri)
    if matched is not None:
        again = template.expand(matched)
        assert template.match(again) == matched
        assert template.expand(template.match(again) or {}) == again
        assert spelled_alike(again) == spelled_alike(uri)


def spelled_alike(uri: str) -> list[str]:
    """A URI without differences of spelling: percent-encoding, the order of query variables, and `a` for `a=`."""
    encoded = re.sub(r"%[0-9A-Fa-f]{2}", lambda triplet: triplet[0].upper(), quote(uri, safe=ASCII))
    plain = re.sub(
        r"[^%\w]|%[0-9A-F]{2}", lambda part: f"%{ord(part[0]):02X}" if len(part[0]) == 1 else part[0], encoded
    )
    plain = re.sub("%(4[1-9A-F]|5[0-9A]|6[1-9A-F]|7[0-9A]|3[0-9]|5F)", lambda each: chr(int(each[1], 16)), plain)
    return sorted(re.split("%26|%3F", plain.replace("%3D", "")))


ASCII = "".join(map(chr, range(128)))


@settings(max_examples=examples(1_000), deadline=None)
@given(st.text("s:/{}+#./;?&*,abc%2F:\\é ", max_size=30))
def test_any_text_is_a_template_or_refused_with_a_reason(text: str) -> None:
    reason = ""
    try:
        template = UriTemplate(f"s:{text}")
    except BadUriTemplate as error:
        reason = str(error)
    else:
        values = template.match(f"s:{text}")
        assert values is None or template.match(template.expand(values)) == values
    assert not reason or "; " in reason


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(templates(), min_size=1, max_size=8), st.data())
def test_index_finds_what_a_search_through_all_finds(generated: list[Generated], data: st.DataObject) -> None:
    every = [UriTemplate(each.text) for each in generated]
    kinds = data.draw(st.sampled_from(generated)).kinds
    assume(kinds)
    uri = data.draw(st.sampled_from(every)).expand(
        {name: data.draw(value_of(k, has_query=True)) for name, k in kinds.items()}
    )
    found = UriIndex({}, [(each, each.text) for each in every]).find(uri)
    matching = [each for each in every if each.match(uri) is not None]
    if not matching:
        assert found is None
    else:
        best = min(matching, key=lambda each: each.specificity)
        assert found is not None
        assert found.template is not None
        assert found.template.specificity == best.specificity
        assert found.variables == found.template.match(uri)
