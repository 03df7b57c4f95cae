"""Changes of what only resources and prompts have: URIs and templates, MIME types, arguments and completions.

Clients keep URIs, so a URI or template has to match whatever it matched: that is proven by UriTemplate.covers, and what
cannot be proven is breaking. Variables and arguments that both versions have are compared by the values that they
accept, as those of tools are; one that is new or gone is named here.
"""

from collections.abc import Iterator

from toolhall.contracts.changes import input_changes
from toolhall.contracts.semver import ChangeKind, DefinitionChange
from toolhall.contracts.subschema.value_facts import quote_value
from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.tool import Kind, PromptInfo, ResourceInfo, Tool
from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate
from toolhall.schema.text_values import text_reader
from toolhall.schema.validator import Validator

_KIND_NAMES: dict[Kind, str] = {"tool": "a tool", "resource": "a resource", "prompt": "a prompt"}


def kind_change(old: Tool, new: Tool) -> DefinitionChange | None:
    """The change of a definition that became another kind of thing; nothing else is compared then."""
    if old.kind == new.kind:
        return None
    return DefinitionChange("breaking", "", f"it was {_KIND_NAMES[old.kind]} and is {_KIND_NAMES[new.kind]} now")


def prompt_changes(old: Tool, new: Tool) -> list[DefinitionChange]:
    """The changes of a prompt's arguments and completions."""
    before, after = old.prompt or PromptInfo(), new.prompt or PromptInfo()
    changes = list(_argument_changes(old.input, new.input))
    kept = _names(old.input) & _names(new.input)
    changes += input_changes(_only(old.input, kept), _only(new.input, kept))
    return [*changes, *_completion_changes(before.completes, after.completes, "argument", kept)]


def resource_changes(old: Tool, new: Tool) -> list[DefinitionChange]:
    """The changes of a resource's URI or template, its variables, its MIME type and what describes it."""
    before, after = old.resource or ResourceInfo(uri=""), new.resource or ResourceInfo(uri="")
    renamed = _renamed_variables(before, after)
    old_input = _renamed(old.input, renamed)
    kept = _names(old_input) & _names(new.input)
    changes = list(_uri_changes(before, after, new.input))
    changes += input_changes(_only(old_input, kept), _only(new.input, kept))
    completes = tuple(renamed.get(name, name) for name in before.completes)
    changes += _completion_changes(completes, after.completes, "variable", kept)
    changes += _mime_type_changes(before.mime_type, after.mime_type)
    return [*changes, *_promise_changes(before, after), *_description_changes(old, new, before, after)]


def _uri_changes(old: ResourceInfo, new: ResourceInfo, values: JsonObject) -> Iterator[DefinitionChange]:
    if (old.uri, old.any_path) == (new.uri, new.any_path):
        return
    path = "/uriTemplate" if new.is_template else "/uri"
    before, after = _template(old), _template(new)
    if before is None or after is None:
        yield _no_longer_matches(path, old, "it could not be proven that it matches what it matched")
        return
    gone = [name for name in before.query_variables if name not in after.query_variables]
    for name in gone:
        yield DefinitionChange("breaking", path, f"the query variable {name!r} was removed: URIs with it name nothing")
    if gone and _without_query(after).covers(_without_query(before)):
        yield from _added_query_variables(path, before, after)
    elif not after.covers(before):
        yield _no_longer_matches(path, old, _reason(old, new, before, after))
    elif not before.is_template and after.is_template and not _accepts(after, before.text, values):
        yield _no_longer_matches(path, old, "its variables do not accept what the URI has in their place")
    else:
        yield from _added_query_variables(path, before, after)
        if before.is_template and before.covers(after) and old.uri != new.uri:
            yield DefinitionChange("fix", path, f"it is written {quote_value(new.uri)} now and matches the same URIs")
        elif (not before.is_template and after.variables != after.query_variables) or old.any_path != new.any_path:
            yield DefinitionChange("feature", path, "it also matches other URIs")


def _added_query_variables(path: str, old: UriTemplate, new: UriTemplate) -> Iterator[DefinitionChange]:
    for name in new.query_variables:
        if name not in old.query_variables:
            yield DefinitionChange("feature", path, f"the query variable {name!r} was added")


def _no_longer_matches(path: str, old: ResourceInfo, why: str) -> DefinitionChange:
    return DefinitionChange("breaking", path, f"URIs of {quote_value(old.uri)} may name nothing any more: {why}")


def _reason(old: ResourceInfo, new: ResourceInfo, before: UriTemplate, after: UriTemplate) -> str:
    if old.uri == new.uri:
        return "values with '..' and absolute paths are refused now"
    if before.shape == after.shape:
        return "it could not be proven that it matches what it matched"
    return f"it is {quote_value(new.uri)} now"


def _template(info: ResourceInfo) -> UriTemplate | None:
    """The parsed template; None for one from outside that cannot be matched."""
    try:
        return UriTemplate(info.uri, any_path=info.any_path)
    except BadUriTemplate:
        return None


def _without_query(template: UriTemplate) -> UriTemplate:
    """The template without its query variables, which stand at its end."""
    text = template.text
    return UriTemplate(text[: text.rindex("{")], any_path=True) if template.query_variables else template


def _accepts(template: UriTemplate, uri: str, schema: JsonObject) -> bool:
    """Whether the values that the template finds in a URI are accepted by the schema of its variables."""
    values = template.match(uri)
    return values is not None and not Validator(schema).problems(text_reader(schema, json=False)(values), len(uri))


def _renamed_variables(old: ResourceInfo, new: ResourceInfo) -> dict[str, str]:
    """The new names of variables in the path, if both templates are equal but for them."""
    before, after = _template(old), _template(new)
    if before is None or after is None or before.shape != after.shape:
        return {}
    paths = [each.variables[: len(each.variables) - len(each.query_variables)] for each in (before, after)]
    return {one: other for one, other in zip(*paths, strict=True) if one != other}


def _renamed(schema: JsonObject, names: dict[str, str]) -> JsonObject:
    """The schema with other names of its properties."""
    if not names:
        return schema
    renamed = {names.get(name, name): part for name, part in _properties(schema).items()}
    return {**schema, "properties": renamed, "required": [names.get(name, name) for name in _required(schema)]}


def _argument_changes(old: JsonObject, new: JsonObject) -> Iterator[DefinitionChange]:
    before, after = _names(old), _names(new)
    for name in sorted(before - after):
        yield DefinitionChange("breaking", _argument_path(name), f"the argument {name!r} was removed")
    for name in sorted(after - before):
        if name in _required(new):
            yield DefinitionChange("breaking", _argument_path(name), f"the new argument {name!r} is required")
        else:
            yield DefinitionChange("feature", _argument_path(name), f"the argument {name!r} was added")


def _argument_path(name: str) -> str:
    return f"/arguments/{escape_pointer(name)}"


def _completion_changes(
    old: tuple[str, ...], new: tuple[str, ...], what: str, kept: set[str]
) -> Iterator[DefinitionChange]:
    """Changes of which variables or arguments have completions; of those that are gone, nothing more is said."""
    for name in sorted(set(old) - set(new)):
        if name in kept:
            yield DefinitionChange("breaking", "", f"the {what} {name!r} is no longer completed")
    for name in sorted(set(new) - set(old)):
        yield DefinitionChange("feature", "", f"the {what} {name!r} is completed now")


def _mime_type_changes(old: str | None, new: str | None) -> Iterator[DefinitionChange]:
    if old == new:
        return
    if old is None:
        yield DefinitionChange("feature", "/mimeType", f"the MIME type {new} is stated now")
    elif new is None:
        yield DefinitionChange("breaking", "/mimeType", f"the MIME type {old} is no longer stated")
    else:
        yield DefinitionChange("breaking", "/mimeType", f"the MIME type was {old} and is {new} now")


def _promise_changes(old: ResourceInfo, new: ResourceInfo) -> Iterator[DefinitionChange]:
    if old.listed != new.listed:
        kind: ChangeKind = "feature" if new.listed else "breaking"
        yield DefinitionChange(kind, "", "it is listed now" if new.listed else "it is no longer listed")
    if old.exact != new.exact:
        kind = "feature" if new.exact else "breaking"
        yield DefinitionChange(kind, "", f"its text is {'' if new.exact else 'no longer '}served byte for byte")
    if (old.fresh, old.shared) != (new.fresh, new.shared):
        yield DefinitionChange("fix", "", "how long or for whom clients may keep it changed")


def _description_changes(old: Tool, new: Tool, before: ResourceInfo, after: ResourceInfo) -> Iterator[DefinitionChange]:
    """Texts; a resource is found by its URI, so its name is one of them."""
    rows: tuple[tuple[str, Json, Json], ...] = (
        ("name", old.name, new.name),
        ("size", before.size, after.size),
        ("annotations", before.notes, after.notes),
    )
    for name, one, other in rows:
        if one != other:
            yield DefinitionChange("fix", f"/{name}", f"the {name} changed")


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _names(schema: JsonObject) -> set[str]:
    return set(_properties(schema))


def _required(schema: JsonObject) -> list[str]:
    found = schema.get("required")
    return found if isinstance(found, list) else []


def _only(schema: JsonObject, names: set[str]) -> JsonObject:
    """The schema with these properties only."""
    kept = {name: part for name, part in _properties(schema).items() if name in names}
    return {**schema, "properties": kept, "required": [name for name in _required(schema) if name in names]}
