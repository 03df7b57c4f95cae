"""Properties of hostile input: a conversion returns a value or a refusal, never anything else."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.properties.definitions import DOCUMENTS, TEXTS, VALUES
from toolhall.dialects import strict_json
from toolhall.dialects.catalogs import CATALOGS, WRITE_ONLY_CATALOGS
from toolhall.dialects.convert import lossless
from toolhall.dialects.convert.converter import Converter
from toolhall.dialects.convert.translate import LOSS_RECORD_VERSION
from toolhall.dialects.findings import BadDocument
from toolhall.model.errors import Malformed
from toolhall.model.json import encode, short_digest

# Members that catalogs look at, each with a value of any kind: mostly wrong in one place only.
_MEMBERS = (
    "id name version description capabilities parameters type required default return schema securityLevel metadata "
    "requiredPermissions tool methods resources params input_schema output_schema requirements authorization secrets "
    "user_id inputSchema outputSchema annotations icons src sizes theme title _meta function arguments desc properties "
    "items anyOf $ref $defs definitions $schema enum dependencies dev.toolhall/id dev.toolhall/level dev.toolhall/tags "
    "dev.toolhall/carrier x-toolhall additionalProperties 0 ~ / =a"
)
MEMBERS = st.sampled_from(_MEMBERS.split())
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | MEMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS | TEXTS, inner, max_size=5),
    max_leaves=14,
)
_POINTERS = (
    "/ x /name /capabilities /capabilities/0 /capabilities/=a/x /tool /tool/capabilities /inputSchema/type /~2/~"
)
LONG = ["", "/parameters/0", "/parameters/²", f"/parameters/{'9' * 5000}", "/" * 3000]
POINTERS = st.sampled_from([*_POINTERS.split(), *LONG])
CHANGES = st.lists(
    st.fixed_dictionaries(
        {"path": POINTERS | TEXTS},
        optional={
            "was": st.none() | st.sampled_from([short_digest({}), short_digest([]), short_digest("object")]),
            "value": VALUES,
        },
    ),
    max_size=4,
)
CARRIERS = st.fixed_dictionaries(
    {"v": st.just(LOSS_RECORD_VERSION), "from": st.sampled_from([*CATALOGS, "nowhere"])},
    optional={
        "group": CHANGES,
        "items": st.dictionaries(TEXTS, CHANGES, max_size=2),
        "at": st.integers(-3, 2**60),
        "of": st.integers(-3, 2**60),
        "bare": st.booleans(),
    },
)


def convert(document: Any, target: str, source: str | None) -> None:
    """What comes of it is JSON, or a refusal that says why."""
    converter = Converter(target, source)
    try:
        parts = [*converter.feed(document, 0), *converter.finish()]
    except BadDocument as bad:
        explained(bad)
        return
    for written in (written for part in parts for written in part.documents):
        strict_json.decode(encode(written))


def explained(bad: BadDocument) -> None:
    assert bad.findings
    assert all(each.rule and each.fix for each in bad.findings)


@pytest.mark.parametrize("source", [*CATALOGS, None])
@settings(max_examples=examples(100))
@given(document=ODD, target=st.sampled_from([*CATALOGS, *WRITE_ONLY_CATALOGS]))
def test_conversion_of_any_json_value_is_json_or_a_refusal(source: str | None, document: Any, target: str) -> None:
    convert(document, target, source)


@pytest.mark.parametrize("source", DOCUMENTS)
@settings(max_examples=examples(100))
@given(data=st.data(), odd=ODD, target=st.sampled_from([*CATALOGS, *WRITE_ONLY_CATALOGS]))
def test_conversion_of_a_document_with_an_odd_part_is_json_or_a_refusal(
    source: str, data: st.DataObject, odd: Any, target: str
) -> None:
    document = data.draw(DOCUMENTS[source])
    holder: Any = document
    while isinstance(holder, dict | list) and holder:
        inner: Any = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not isinstance(holder[inner], dict | list) or data.draw(st.booleans()):
            holder[inner] = odd
            break
        holder = holder[inner]
    convert(document, target, source)
    try:
        lossless.read(document, CATALOGS[source])
    except BadDocument as bad:
        explained(bad)


@pytest.mark.parametrize("source", DOCUMENTS)
@settings(max_examples=examples(60))
@given(data=st.data(), carrier=CARRIERS, target=st.sampled_from([*CATALOGS, *WRITE_ONLY_CATALOGS]))
def test_conversion_with_a_forged_loss_record_is_json_or_a_refusal(
    source: str, data: st.DataObject, carrier: Any, target: str
) -> None:
    document = data.draw(DOCUMENTS[source])
    *holders, last = CATALOGS[source].loss_record_path
    holder: Any = document
    for key in holders:
        holder[key] = dict(holder[key]) if isinstance(holder.get(key), dict) else {}
        holder = holder[key]
    holder[last] = carrier
    convert(document, target, source)


@settings(max_examples=examples(200))
@given(st.binary(max_size=60) | ODD.map(lambda value: json.dumps(value).encode()))
def test_conversion_of_any_bytes_is_json_or_a_refusal(body: bytes) -> None:
    try:
        document = strict_json.decode(body)
    except Malformed:
        return
    convert(document, "oxp", None)
