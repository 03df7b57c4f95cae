"""Changes of resources, templates and prompts, and whether their versions say so."""

from typing import Any

from tests.tables import each_row
from toolhall.contracts.release import check_release, diff, diff_toolkit
from toolhall.model.content import Notes
from toolhall.model.names import ToolId
from toolhall.model.tool import PromptInfo, ResourceInfo, Tool
from toolhall.model.uri_template import UriTemplate


def arguments(*needed: str, optional: tuple[str, ...] = (), **types: Any) -> dict[str, Any]:
    """An input schema as @resource and @prompt make it; arguments are texts unless a schema is given."""
    properties = {name: types.get(name, {"type": "string"}) for name in (*needed, *optional)}
    return {"type": "object", "properties": properties, "required": list(needed), "additionalProperties": False}


def resource(uri: str, schema: Any = None, *, version: str = "1.0.0", **info: Any) -> Tool:
    """A resource or template whose variables are texts unless a schema is given."""
    template = UriTemplate(uri)
    path = [name for name in template.variables if name not in template.query_variables]
    stated = {key: info.pop(key) for key in ("name", "description", "level") if key in info}
    return Tool(
        id=ToolId("Shop", "order", version),
        name=stated.pop("name", "order"),
        input=schema or arguments(*path, optional=template.query_variables),
        resource=ResourceInfo(uri=uri, **info),
        **stated,
    )


def prompt(schema: Any, *, version: str = "1.0.0", completes: tuple[str, ...] = (), **stated: Any) -> Tool:
    known: dict[str, Any] = {"id": ToolId("Shop", "refund", version), "name": "refund", **stated}
    return Tool(**known, input=schema, prompt=PromptInfo(completes=completes))


def changes(old: Tool, new: Tool) -> list[tuple[str, str]]:
    return [(change.kind, change.path) for change in diff(old, new)]


@each_row(
    ("old", "new", "expected"),
    [
        ("shop://a", "shop://a", []),
        ("shop://a", "shop://b", [("breaking", "/uri")]),
        ("shop://a", "shop://{x}", [("feature", "/uriTemplate")]),
        ("shop://a/b", "shop://{x}", [("breaking", "/uriTemplate")]),
        ("shop://{x}", "shop://a", [("breaking", "/uri")]),
        ("shop://{x}", "shop://{y}", [("fix", "/uriTemplate")]),
        ("shop://{x}", "shop://{+x}", [("breaking", "/uriTemplate")]),
        ("shop://{+x}", "shop://{x}", [("breaking", "/uriTemplate")]),
        ("shop://{x}/a", "shop://{x}/b", [("breaking", "/uriTemplate")]),
        ("shop://{x}", "shop://{x}/{y}", [("breaking", "/uriTemplate")]),
        ("shop://{x}", "shop://{x}{?a}", [("feature", "/uriTemplate")]),
        ("shop://{x}{?a}", "shop://{y}{?b,a}", [("feature", "/uriTemplate")]),
        ("shop://{x}{?a,b}", "shop://{x}{?b,a}", [("fix", "/uriTemplate")]),
        ("shop://{x}{?a,b}", "shop://{x}{?a}", [("breaking", "/uriTemplate")]),
        ("shop://{x}{?a}", "shop://{x}", [("breaking", "/uriTemplate")]),
        ("shop://{x}{?a}", "shop://{x}{?b}", [("breaking", "/uriTemplate"), ("feature", "/uriTemplate")]),
        # A path that could hold a question mark no longer can.
        ("shop://{+x}", "shop://{+x}{?a}", [("breaking", "/uriTemplate")]),
        ("shop://a?v=1", "shop://a?v=1{&b}", [("feature", "/uriTemplate")]),
    ],
)
def test_diff_uri_that_no_longer_matches_is_breaking(old: str, new: str, expected: list[tuple[str, str]]) -> None:
    assert changes(resource(old), resource(new)) == expected


def test_diff_exact_uri_in_a_template_needs_a_value_that_the_template_accepts() -> None:
    number = arguments("x", x={"type": "integer"})
    assert changes(resource("shop://17"), resource("shop://{x}", number)) == [("feature", "/uriTemplate")]
    assert changes(resource("shop://all"), resource("shop://{x}", number)) == [("breaking", "/uriTemplate")]


def test_diff_renamed_variables_are_compared_with_each_other() -> None:
    old = resource("shop://{a}/{b}", arguments("a", "b", a={"type": "integer"}))
    new = resource("shop://{b}/{a}", arguments("b", "a", b={"type": "integer"}))
    assert changes(old, new) == [("fix", "/uriTemplate")]
    narrower = resource("shop://{x}/{y}", arguments("x", "y", x={"type": "integer"}, y={"type": "integer"}))
    assert ("breaking", "/inputSchema/properties/y/type") in changes(old, narrower)


def test_diff_values_that_a_variable_no_longer_accepts_are_breaking() -> None:
    texts, numbers = (resource("shop://{x}", arguments("x", x={"type": kind})) for kind in ("string", "integer"))
    assert changes(texts, numbers)[0] == ("breaking", "/inputSchema/properties/x/type")


@each_row(
    ("old", "new", "expected"),
    [
        ({}, {"mime_type": "text/html"}, [("feature", "/mimeType")]),
        ({"mime_type": "text/html"}, {}, [("breaking", "/mimeType")]),
        ({"mime_type": "text/html"}, {"mime_type": "text/plain"}, [("breaking", "/mimeType")]),
        ({"size": 1}, {"size": 2}, [("fix", "/size")]),
        ({}, {"notes": Notes(priority=1.0)}, [("fix", "/annotations")]),
        ({}, {"fresh": 60.0}, [("fix", "")]),
        ({}, {"shared": True}, [("fix", "")]),
        ({"listed": False}, {}, [("feature", "")]),
        ({}, {"listed": False}, [("breaking", "")]),
        ({}, {"exact": True}, [("feature", "")]),
        ({"exact": True}, {}, [("breaking", "")]),
        ({"any_path": True}, {}, [("breaking", "/uriTemplate")]),
        ({}, {"any_path": True}, [("feature", "/uriTemplate")]),
        ({}, {"completes": ("path",)}, [("feature", "")]),
        ({"completes": ("path",)}, {}, [("breaking", "")]),
        ({}, {"description": "Other."}, [("fix", "/description")]),
        ({}, {"name": "other"}, [("fix", "/name")]),
        ({}, {"level": 3}, [("breaking", "/level")]),
    ],
)
def test_diff_members_of_a_resource_have_their_kind(old: Any, new: Any, expected: list[tuple[str, str]]) -> None:
    assert changes(resource("shop://{+path}", **old), resource("shop://{+path}", **new)) == expected


@each_row(
    ("old", "new", "expected"),
    [
        (arguments("a"), arguments("a"), []),
        (arguments("a"), arguments(), [("breaking", "/arguments/a")]),
        (arguments("a"), arguments("a", "b"), [("breaking", "/arguments/b")]),
        (arguments("a"), arguments("a", optional=("b",)), [("feature", "/arguments/b")]),
        (arguments("a"), arguments(optional=("a",)), [("feature", "/inputSchema/required")]),
        (arguments(optional=("a",)), arguments("a"), [("breaking", "/inputSchema/required")]),
        (
            arguments("a"),
            arguments("a", a={"type": "string", "description": "Which."}),
            [("fix", "/inputSchema/properties/a/description")],
        ),
    ],
)
def test_diff_arguments_of_a_prompt_have_their_kind(old: Any, new: Any, expected: list[tuple[str, str]]) -> None:
    assert changes(prompt(old), prompt(new)) == expected


def test_diff_completions_and_name_of_a_prompt() -> None:
    one = prompt(arguments("a"))
    assert changes(one, prompt(arguments("a"), completes=("a",))) == [("feature", "")]
    assert changes(prompt(arguments("a"), completes=("a",)), one) == [("breaking", "")]
    assert changes(one, prompt(arguments("a"), name="pay")) == [("breaking", "/name")]


def test_diff_another_kind_is_one_breaking_change() -> None:
    found = diff(prompt(arguments()), resource("shop://a"))
    assert [(each.kind, each.path, each.reason) for each in found] == [
        ("breaking", "", "it was a prompt and is a resource now")
    ]


def test_diff_template_from_outside_that_cannot_be_matched_is_not_proven() -> None:
    def foreign(uri: str) -> Tool:
        return Tool(id=ToolId("a", "a", "0.1.0"), name="a", input={"type": "object"}, resource=ResourceInfo(uri=uri))

    assert changes(foreign("shop://{a:3}"), foreign("shop://{a:3}")) == []
    assert changes(foreign("shop://{a:3}"), foreign("shop://{a}")) == [("breaking", "/uriTemplate")]


def test_diff_toolkit_names_the_kind_that_was_added_or_removed() -> None:
    found = diff_toolkit([prompt(arguments())], [resource("shop://a")])
    assert [each.reason for each in found] == ["the prompt 'refund' was removed", "the resource 'order' was added"]


def test_check_release_holds_kinds_of_one_toolkit_to_one_version() -> None:
    old = [resource("shop://{x}"), prompt(arguments("a"))]
    added = [resource("shop://{x}{?a}", version="1.0.1"), prompt(arguments("a"), version="1.0.1")]
    found = check_release(old, added)
    assert (found.required, found.declared, found.ok, found.next) == ("minor", "patch", False, "1.1.0")
    removed = check_release(old, [resource("shop://{x}", version="1.1.0")])
    assert (removed.required, removed.ok) == ("major", False)
    assert [each.path for each in removed.changes] == ["/capabilities/refund"]


def test_check_release_without_ids_tells_kinds_and_equal_names_apart() -> None:
    def unstated(kind: str, name: str, uri: str = "") -> Tool:
        info: dict[str, Any] = {"resource": ResourceInfo(uri=uri)} if uri else {}
        info |= {"prompt": PromptInfo()} if kind == "prompt" else {}
        return Tool(id=ToolId(name, name, "0.1.0"), name=name, input={"type": "object"}, **info)

    one, other, third = (unstated("resource", "log", f"logs://{name}") for name in "abc")
    kept = [unstated("tool", "log"), unstated("prompt", "log"), one]
    assert check_release([*kept, other], [*kept, other]).changes == []
    found = check_release([*kept, other], [*kept, third])
    assert [(each.kind, each.path) for each in found.changes] == [
        ("breaking", "/resources/logs:~1~1b"),
        ("feature", "/resources/logs:~1~1c"),
    ]
