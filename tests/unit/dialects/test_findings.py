"""Findings of bad documents: all problems at once, each with path, rule and fix."""

import copy
from typing import Any, NamedTuple

import pytest

from tests.tables import each_row
from toolhall.dialects.catalogs import CATALOGS
from toolhall.dialects.findings import BadDocument, Finding

ABSENT = object()
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "description": "A."}}}
GOOD: dict[str, Any] = {
    "machine": {
        "id": "clock",
        "name": "Clock",
        "version": "1.0.0",
        "description": "Tells the time.",
        "securityLevel": 5,
        "metadata": {},
        "capabilities": [
            {
                "name": "now",
                "description": "Now.",
                "parameters": [
                    {"name": "zone", "description": "Zone.", "type": "string", "required": True},
                    {"name": "day", "description": "Day.", "type": "any"},
                ],
                "return": {"description": "Time.", "schema": {}},
                "requiredPermissions": ["time"],
            },
            {"name": "then", "description": "Then."},
        ],
    },
    "hub": {
        "tool": {
            "name": "clock",
            "version": "1.0.0",
            "capabilities": {
                "methods": [{"name": "now", "description": "Now.", "params": SCHEMA}, "then"],
                "resources": [{"name": "zones"}, "days"],
            },
        }
    },
    "oxp": {
        "id": "Clock.Now@1.0.0",
        "name": "Clock_Now",
        "description": "Now.",
        "version": "1.0.0",
        "input_schema": {"parameters": SCHEMA},
        "output_schema": {"type": "string"},
        "requirements": {"authorization": [{"id": "a"}], "secrets": [{"id": "s"}], "user_id": True},
    },
    "mcp@2026-07-28": {
        "name": "now",
        "title": "Now",
        "description": "Now.",
        "inputSchema": SCHEMA,
        "outputSchema": {},
        "annotations": {"title": "Now", "readOnlyHint": True},
        "icons": [{"src": "data:,", "mimeType": "image/png", "sizes": ["1x1"], "theme": "dark"}],
        "_meta": {"dev.toolhall/id": "Clock.now@1.0.0", "dev.toolhall/level": 5, "dev.toolhall/tags": ["time"]},
    },
    "function": {
        "function": {"name": "now", "description": "Now.", "parameters": {"type": "dict"}},
    },
}
MANY = "9" * 5000 + ".0.0"
WIDE = "\N{FULLWIDTH DIGIT ONE}.0.0"
NO_TEXT: list[Any] = [ABSENT, "", None]
CAPABILITY, METHODS, PARAMETERS = "/capabilities/0", "/tool/capabilities/methods", "/input_schema/parameters"


class Row(NamedTuple):
    """Places, the rule that is broken there (or `at` another place), and values that break it."""

    paths: str
    rule: str
    values: list[Any]
    at: str | None = None


BAD: dict[str, list[Row]] = {
    "machine": [
        Row("/id /name /version /description", "missing", NO_TEXT),
        Row("/id /name /version /description", "not-text", [7, [], {}, True]),
        Row("/version", "version", ["1", "1.0", "v1.0.0", "01.0.0", "1.0.0 ", "latest", WIDE, MANY]),
        Row("/securityLevel", "level", [11, -1, True, 5.0, "5", None, [5]]),
        Row("/metadata", "not-object", [[], "x"]),
        Row("/capabilities", "not-list", [ABSENT, None, {}, "now"]),
        Row("/capabilities", "empty", [[]]),
        Row("/capabilities/1", "not-object", ["then", None]),
        Row("/capabilities/1/name", "twice", ["now"]),
        Row(f"{CAPABILITY}/name {CAPABILITY}/description", "missing", NO_TEXT),
        Row(f"{CAPABILITY}/name {CAPABILITY}/description", "not-text", [{}]),
        Row(f"{CAPABILITY}/parameters", "not-list", [{}]),
        Row(f"{CAPABILITY}/parameters/0", "not-object", ["zone"]),
        Row(f"{CAPABILITY}/parameters/1/name", "twice", ["zone"]),
        Row(f"{CAPABILITY}/parameters/0/name {CAPABILITY}/parameters/0/description", "missing", NO_TEXT),
        Row(f"{CAPABILITY}/parameters/0/name {CAPABILITY}/parameters/0/description", "not-text", [1]),
        Row(f"{CAPABILITY}/parameters/0/type", "type", [ABSENT, None, "integer", ["string"], {}]),
        Row(f"{CAPABILITY}/parameters/0/required", "not-boolean", [None, 1, "true"]),
        Row(f"{CAPABILITY}/return", "not-object", [[]]),
        Row(f"{CAPABILITY}/return/description", "not-text", [1]),
        Row(f"{CAPABILITY}/return/schema", "not-object", [None, [], "string", True]),
        Row(f"{CAPABILITY}/requiredPermissions", "not-list", ["time"]),
        Row(f"{CAPABILITY}/requiredPermissions/0", "not-text", [1]),
    ],
    "hub": [
        Row("/tool", "not-object", [None, [], "clock"]),
        Row("/tool/name /tool/version", "missing", NO_TEXT),
        Row("/tool/name /tool/version", "not-text", [7]),
        Row("/tool/version", "version", ["latest", "1.2.3.4", "1.", "-1", WIDE, MANY, "9" * 13]),
        Row("/tool/capabilities", "not-object", [ABSENT, None, []]),
        Row(METHODS, "not-list", [ABSENT, None, {}]),
        Row(METHODS, "empty", [[]]),
        Row(f"{METHODS}/0", "not-object", [7]),
        Row(f"{METHODS}/0/name", "missing", NO_TEXT),
        Row(f"{METHODS}/1", "twice", ["now"]),
        Row(f"{METHODS}/1", "missing", [""], at=f"{METHODS}/1/name"),
        Row(f"{METHODS}/0/description", "not-text", [[]]),
        Row(f"{METHODS}/0/params", "not-object", [[]]),
        Row(f"{METHODS}/0/params/type", "root", ["string", None, ["object"]]),
        Row("/tool/capabilities/resources", "not-list", [{}, None]),
        Row("/tool/capabilities/resources/0", "not-object", [7]),
    ],
    "oxp": [
        Row("/id /name /version /description", "missing", NO_TEXT),
        Row("/id /name /version /description", "not-text", [7]),
        Row("/id", "id", ["Clock", "Clock.Now.x@1.0.0", "Clock-x.Now@1.0.0", "Clock.Now@1.0", "天.気"]),
        Row("/id", "version", ["Clock.Now@2.0.0", "Clock.Now@2"], at="/version"),
        Row("/version", "version", ["1", "1.0.0-rc.1", WIDE, "1.0.1", MANY]),
        Row("/name", "name", ["Clock.Now", "a b", "a" * 65, "now\n"]),
        Row("/input_schema /input_schema/parameters", "not-object", [[], "x"]),
        Row(f"{PARAMETERS}/type", "root", ["string", None]),
        Row(f"{PARAMETERS}/properties/a", "description", [{}, True, {"description": 1}]),
        Row(f"{PARAMETERS}/$defs {PARAMETERS}/properties/a/definitions", "references", [{}]),
        Row(f"{PARAMETERS}/$ref {PARAMETERS}/properties/a/$ref", "references", ["#", 7]),
        Row("/output_schema", "not-object", [[], True]),
        Row("/output_schema/items", "references", [{"$ref": "#"}], at="/output_schema/items/$ref"),
        Row("/output_schema/anyOf", "references", [[{}, {"$ref": "#"}]], at="/output_schema/anyOf/1/$ref"),
        Row("/requirements", "not-object", [[]]),
        Row("/requirements/authorization /requirements/secrets", "not-list", [{}, None]),
        Row("/requirements/authorization/0/id", "missing", NO_TEXT),
        Row("/requirements/secrets/0", "not-object", ["s"]),
        Row("/requirements/user_id", "not-boolean", ["yes", None]),
    ],
    "mcp@2026-07-28": [
        Row("/name", "missing", NO_TEXT),
        Row("/name /title /description", "not-text", [7, []]),
        Row("/inputSchema", "missing", [ABSENT, None, [], True]),
        Row("/inputSchema/type", "root", [ABSENT, "string", ["object"]]),
        Row("/outputSchema /annotations /_meta", "not-object", [[], "string"]),
        Row("/annotations/title", "hint", [True]),
        Row("/annotations/readOnlyHint", "hint", [1, "true"]),
        Row("/icons", "not-list", [{}]),
        Row("/icons/0", "not-object", ["data:,"]),
        Row("/icons/0/src", "missing", NO_TEXT),
        Row("/icons/0/mimeType /icons/0/theme /icons/0/sizes/0", "not-text", [1]),
        Row("/icons/0/sizes", "not-list", ["1x1"]),
        Row("/_meta/dev.toolhall~1level", "level", [11, -1, True, 5.0, "5", None]),
        Row("/_meta/dev.toolhall~1id", "id", ["now", "Clock.now", "Clock.now@new", 7, None]),
        Row("/_meta/dev.toolhall~1tags", "not-list", ["time", None]),
        Row("/_meta/dev.toolhall~1tags/0", "not-text", [1]),
    ],
    "function": [
        Row("/function", "not-object", [[]]),
        Row("/function/name", "missing", NO_TEXT),
        Row("/function/name /function/description", "not-text", [7]),
        Row("/function/parameters", "not-object", [[]]),
    ],
}
CASES = [
    pytest.param(dialect, path, value, (row.at or path, row.rule), id=f"{dialect}-{path}-{row.rule}-{number}")
    for dialect, rows in BAD.items()
    for row in rows
    for path in row.paths.split()
    for number, value in enumerate(row.values)
]


def with_part(document: Any, path: str, value: Any) -> Any:
    """A copy with another value at a pointer."""
    document = copy.deepcopy(document)
    *parents, last = (part.replace("~1", "/") for part in path.split("/")[1:])
    holder = document
    for part in parents:
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    if value is ABSENT:
        del holder[last]
    elif isinstance(holder, list):
        holder[int(last)] = value
    else:
        holder[last] = value
    return document


def findings(document: Any, dialect: str) -> tuple[Finding, ...]:
    with pytest.raises(BadDocument) as refused:
        CATALOGS[dialect].read(document)
    return refused.value.findings


@each_row("dialect", GOOD)
def test_catalog_good_document_has_no_findings(dialect: str) -> None:
    assert CATALOGS[dialect].read(GOOD[dialect])


@each_row(("dialect", "path", "value", "expected"), CASES)
def test_catalog_bad_member_has_path_and_rule(dialect: str, path: str, value: Any, expected: tuple[str, str]) -> None:
    found = findings(with_part(GOOD[dialect], path, value), dialect)
    at, rule = expected
    assert (at, f"{dialect.partition('@')[0]}/{rule}") in [(finding.path, finding.rule) for finding in found]
    assert all(finding.fix for finding in found)


@each_row(
    ("arguments", "path", "rule"),
    [
        ({}, "", "not-list"),
        ([7], "/0", "not-object"),
        ([{"name": 7}], "/0/name", "not-text"),
        ([{"name": "a"}, {"name": "a"}], "/1/name", "twice"),
        ([{"name": "a", "desc": 7}], "/0/desc", "not-text"),
    ],
)
def test_catalog_function_bad_argument_has_path(arguments: Any, path: str, rule: str) -> None:
    found = findings({"name": "f", "arguments": arguments}, "function")
    assert (f"/arguments{path}", f"function/{rule}") in [(finding.path, finding.rule) for finding in found]


@pytest.mark.parametrize("dialect", GOOD)
@pytest.mark.parametrize("document", [None, True, 7, 1.5, "x", []], ids=str)
def test_catalog_non_object_is_refused(dialect: str, document: Any) -> None:
    assert findings(document, dialect)[0] == Finding(
        "", f"{dialect.partition('@')[0]}/not-object", "write an object here"
    )


@each_row(
    ("dialect", "paths"),
    [
        ("machine", ["/id", "/securityLevel", "/capabilities/0/parameters/0/type", "/capabilities/1/description"]),
        ("hub", ["/tool/name", "/tool/version", "/tool/capabilities/methods/0/params", "/tool/capabilities/resources"]),
        ("oxp", ["/id", "/name", "/version", "/input_schema/parameters/properties/a", "/requirements/user_id"]),
        ("mcp@2026-07-28", ["/title", "/inputSchema", "/annotations/readOnlyHint", "/icons/0/src", "/_meta"]),
    ],
)
def test_catalog_reports_all_problems_at_once(dialect: str, paths: list[str]) -> None:
    document = GOOD[dialect]
    for path in paths:
        document = with_part(document, path, 3.5)
    assert {finding.path for finding in findings(document, dialect)} >= set(paths)


def test_catalog_oxp_reports_every_reference() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A", "description": "A."},
            "b/c": {"description": "B.", "$dynamicRef": "#"},
        },
        "$defs": {"A": {"$ref": "#"}},
    }
    found = findings(with_part(GOOD["oxp"], "/input_schema", schema), "oxp")
    assert sorted(finding.path for finding in found) == [
        "/input_schema/$defs",
        "/input_schema/properties/a/$ref",
        "/input_schema/properties/b~1c/$dynamicRef",
    ]


def test_catalog_mcp_unsafe_name_is_changed() -> None:
    (tool, _) = CATALOGS["hub"].read(with_part(GOOD["hub"], "/tool/name", "my clock/天"))
    assert tool.id.toolkit == "my clock/天"
    assert tool.name.startswith("my_clock")
    assert tool.name.isascii()


def test_catalog_mcp_ambiguous_id_is_not_written() -> None:
    document = with_part(GOOD["hub"], "/tool/name", "a@b")
    mcp = CATALOGS["mcp@2026-07-28"]
    written = mcp.write((CATALOGS["hub"].read(document)[0],))
    assert "_meta" not in written
    assert mcp.read(written)


def test_catalog_oxp_id_may_have_bare_version() -> None:
    (tool,) = CATALOGS["oxp"].read(with_part(GOOD["oxp"], "/id", "Clock.Now@1"))
    assert tool.id.version == "1.0.0"
