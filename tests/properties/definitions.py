"""Hypothesis strategies for definitions of every dialect: nested schemas, references, odd names, unknown members."""

import copy
from typing import Any

import msgspec
from hypothesis import strategies as st

Document = dict[str, Any]

# Letters of several scripts, and those that pointers, ids and templates give a meaning to.
_LETTERS = st.sampled_from("abcxyzAZ019_-.~/ =@#$äß天気🌧")
TEXTS = st.text(_LETTERS, max_size=12)
NAMES = st.text(_LETTERS, min_size=1, max_size=12)
PLAIN_NAMES = st.text(st.sampled_from("abcXYZ019_"), min_size=1, max_size=10)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)
# Members that no dialect knows.
UNKNOWN = st.dictionaries(st.sampled_from(["x-a", "x-天", "x-~/", "execution", ""]), VALUES, max_size=2)
SEMANTIC = st.sampled_from(["0.1.0", "1.2.3", "10.0.0-rc.1", "2.0.0+build.7", "1.0.0-alpha"])
_NUMBERS = st.sampled_from(["0.1.0", "1.2.3", "20.0.10"])

REFERENCES = st.sampled_from(["#/$defs/place", "#/$defs/tree", "#"])
_STRINGS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "description": TEXTS,
        "title": TEXTS,
        "minLength": st.integers(0, 9),
        "format": st.sampled_from(["date-time", "uri"]),
        "enum": st.lists(TEXTS, min_size=1, max_size=3, unique=True),
        "default": TEXTS,
        "x-mcp-header": st.just("Query"),
    },
)
_NUMERIC = st.fixed_dictionaries(
    {"type": st.sampled_from(["number", "integer"])},
    optional={
        "description": TEXTS,
        "minimum": st.integers(-5, 5),
        "default": st.integers(-9, 2**60) | st.floats(-9, 9),
    },
)
_OTHERS = st.sampled_from(
    [{}, {"type": "boolean"}, {"type": ["integer", "null"], "default": None}, {"const": 1.0}, {"type": "array"}]
).map(copy.deepcopy)  # some tests change what they get


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"description": TEXTS})
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(TEXTS, inner, max_size=2)},
        optional={"description": TEXTS, "required": st.lists(TEXTS, max_size=2, unique=True)},
    )
    choices = st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}, optional={"title": TEXTS})
    return lists | objects | choices


def schemas(*, references: bool) -> st.SearchStrategy[Any]:
    """A schema somewhere inside another."""
    referring = st.fixed_dictionaries({"$ref": REFERENCES}, optional={"description": TEXTS})
    leaves = _STRINGS | _NUMERIC | _OTHERS
    return st.recursive(leaves | referring if references else leaves, _nested, max_leaves=4)


_DEFINITIONS: Document = {
    "place": {"type": "string", "description": "Where."},
    "tree": {"type": "object", "properties": {"inside": {"$ref": "#/$defs/tree"}, "at": {"$ref": "#/$defs/place"}}},
}


def roots(*, references: bool) -> st.SearchStrategy[Document]:
    """The schema of arguments."""
    return st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(TEXTS, schemas(references=references), max_size=3),
            "required": st.lists(TEXTS, unique=True, max_size=2),
            "additionalProperties": st.booleans(),
            "description": TEXTS,
        },
    ).map(_with_definitions)


def _with_definitions(schema: Document) -> Document:
    return schema | ({"$defs": copy.deepcopy(_DEFINITIONS)} if b'"$ref"' in msgspec.json.encode(schema) else {})


@st.composite
def shuffled(draw: st.DrawFn, documents: st.SearchStrategy[Document]) -> Document:
    """The document with unknown members, its own in any order."""
    document = draw(documents)
    unknown = {key: value for key, value in draw(UNKNOWN).items() if key not in document}
    members = draw(st.permutations(list((document | unknown).items())))
    return dict(members)


def _optional(**members: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    """Members that may be absent, and null."""
    return {name: st.none() | values for name, values in members.items()}


_PARAMETERS = shuffled(
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "description": NAMES,
            "type": st.sampled_from(["string", "number", "boolean", "object", "array", "any"]),
        },
        optional={"required": st.booleans(), "default": VALUES},
    )
)
_RETURNS = shuffled(
    st.fixed_dictionaries({}, optional={"description": st.none() | TEXTS, "schema": schemas(references=False)})
)
_CAPABILITIES = shuffled(
    st.fixed_dictionaries(
        {"name": NAMES, "description": NAMES},
        optional={
            **_optional(parameters=st.lists(_PARAMETERS, max_size=3, unique_by=lambda each: str(each["name"]))),
            **_optional(requiredPermissions=st.lists(TEXTS, max_size=2)),
            "return": st.none() | _RETURNS,
        },
    )
)
MACHINE = shuffled(
    st.fixed_dictionaries(
        {
            "id": NAMES,
            "name": NAMES,
            "version": SEMANTIC,
            "description": NAMES,
            "capabilities": st.lists(_CAPABILITIES, min_size=1, max_size=3, unique_by=lambda each: str(each["name"])),
        },
        optional={
            "securityLevel": st.integers(0, 10),
            **_optional(metadata=st.dictionaries(TEXTS, VALUES, max_size=2)),
        },
    )
)

_METHODS = NAMES | shuffled(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            **_optional(description=TEXTS),
            "params": st.none()
            | roots(references=True)
            | roots(references=True).map(lambda schema: {key: schema[key] for key in schema if key != "type"}),
        },
    )
)
_RESOURCES = st.lists(NAMES | st.dictionaries(TEXTS, VALUES, max_size=2), max_size=2)
_DECLARATIONS = shuffled(
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "version": SEMANTIC | st.sampled_from(["20260401", "7", "1.2"]),
            "capabilities": shuffled(
                st.fixed_dictionaries(
                    {
                        "methods": st.lists(
                            _METHODS,
                            min_size=1,
                            max_size=3,
                            unique_by=lambda each: str(each if isinstance(each, str) else each["name"]),
                        )
                    },
                    optional={"resources": _RESOURCES},
                )
            ),
        },
        optional={"metadata": VALUES},
    )
)
HUB = _DECLARATIONS | shuffled(st.fixed_dictionaries({"tool": _DECLARATIONS}))


def _described(schema: Document) -> Document:
    """Every parameter with a description, as OXP wants it; no schema may be a reference."""
    properties = {
        name: {**part, "description": part.get("description", "D.")}
        for name, part in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties} if "properties" in schema else schema


_INPUTS = roots(references=False).map(_described)
_REQUIREMENTS = shuffled(
    st.fixed_dictionaries(
        {},
        optional={
            "authorization": st.lists(shuffled(st.fixed_dictionaries({"id": NAMES})), max_size=2),
            "secrets": st.lists(st.fixed_dictionaries({"id": NAMES}), max_size=2),
            "user_id": st.booleans(),
        },
    )
)


@st.composite
def _oxp(draw: st.DrawFn) -> Document:
    version = draw(_NUMBERS)
    tail = draw(st.sampled_from(["", f"@{version}"]))
    return draw(
        st.fixed_dictionaries(
            {
                "id": st.tuples(PLAIN_NAMES, PLAIN_NAMES).map(lambda parts: f"{parts[0]}.{parts[1]}{tail}"),
                "name": st.text(st.sampled_from("abXY09_-"), min_size=1, max_size=9),
                "description": NAMES,
                "version": st.just(version),
            },
            optional={
                "input_schema": st.none()
                | st.builds(dict)
                | _INPUTS
                | _INPUTS.map(lambda schema: {"parameters": schema}),
                "output_schema": st.none() | schemas(references=False),
                **_optional(requirements=_REQUIREMENTS),
            },
        )
    )


OXP = shuffled(_oxp())

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_ANNOTATIONS = shuffled(
    st.fixed_dictionaries(
        {}, optional={**_optional(title=TEXTS), **{hint: st.none() | st.booleans() for hint in _HINTS}}
    )
)
_ICONS = shuffled(
    st.fixed_dictionaries(
        {"src": st.sampled_from(["https://example.org/i.png", "data:image/png,"])},
        optional={
            **_optional(mimeType=TEXTS, sizes=st.lists(TEXTS, max_size=2)),
            "theme": st.sampled_from(["light", "dark", "sepia"]),
        },
    )
)
_META = st.dictionaries(
    st.sampled_from(["example.org/a", "example.org/b~"]), VALUES, max_size=2
) | st.fixed_dictionaries(
    {},
    optional={
        "dev.toolhall/id": st.sampled_from(["Kit.tool@1.2.0", "a.b.c@7", "天.気@1.0.0-rc.1"]),
        "dev.toolhall/level": st.integers(0, 10),
        "dev.toolhall/tags": st.lists(TEXTS, max_size=2),
        "dev.toolhall/carrier": VALUES,
        "example.org/a": VALUES,
    },
)
MCP = shuffled(
    st.fixed_dictionaries(
        {"name": NAMES, "inputSchema": roots(references=True)},
        optional={
            **_optional(
                title=TEXTS,
                description=TEXTS,
                outputSchema=schemas(references=False) | roots(references=True),
                annotations=_ANNOTATIONS,
                icons=st.lists(_ICONS, max_size=2),
                _meta=_META,
            )
        },
    )
)

_NOTES = shuffled(
    st.fixed_dictionaries(
        {},
        optional={
            **_optional(lastModified=TEXTS),
            "audience": st.lists(st.sampled_from(["user", "assistant"]), max_size=2),
            "priority": st.floats(0, 1) | st.integers(0, 1),
        },
    )
)
_DESCRIBED = {
    **_optional(title=TEXTS, description=TEXTS, mimeType=TEXTS, icons=st.lists(_ICONS, max_size=2), _meta=_META),
    **_optional(annotations=_NOTES),
}
_TEMPLATES = ["shop://orders/{number}", "shop://{+path}{?a,b}", "s://{x:3}", "s://{?x*}", "{x}", "s://{a}{b}"]
RESOURCES = shuffled(
    st.fixed_dictionaries(
        {"name": NAMES, "uri": st.sampled_from(["shop://policy", "https://a/b", "no uri", "caf\u00e9://x"])},
        optional={**_DESCRIBED, "size": st.none() | st.integers(0, 2**53)},
    )
)
TEMPLATES = shuffled(
    st.fixed_dictionaries({"name": NAMES, "uriTemplate": st.sampled_from(_TEMPLATES)}, optional=_DESCRIBED)
)
_ARGUMENTS = shuffled(
    st.fixed_dictionaries(
        {"name": NAMES}, optional={**_optional(title=TEXTS, description=TEXTS), "required": st.booleans()}
    )
)
PROMPTS = shuffled(
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "arguments": st.lists(_ARGUMENTS, max_size=3, unique_by=lambda each: str(each["name"])),
        },
        optional={key: part for key, part in _DESCRIBED.items() if key not in ("mimeType", "annotations")},
    )
)

FUNCTION = shuffled(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            **_optional(description=TEXTS),
            "parameters": roots(references=True)
            | st.just({"type": "dict", "properties": {"a": {"type": "float"}, "b": {"type": "any"}}}).map(
                copy.deepcopy
            ),
        },
    )
)
DOCUMENTS: dict[str, st.SearchStrategy[Document]] = {
    "machine": MACHINE,
    "hub": HUB,
    "oxp": OXP,
    "mcp@2025-06-18": MCP,
    "mcp@2025-11-25": MCP,
    "mcp@2026-07-28": MCP,
    "function": FUNCTION,
}
