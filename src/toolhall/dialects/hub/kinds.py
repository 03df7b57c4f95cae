"""Resources and prompts in hub declarations: methods with a `dev.toolhall/resource` or `dev.toolhall/prompt` member.

The member is a ResourceInfo or PromptInfo, without what only the hall's own code may state. A hub that does not know it
serves the method as a tool, whose result is the same content.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from toolhall.dialects.findings import DocumentReader
from toolhall.model.json import JsonObject, escape_pointer
from toolhall.model.tool import MAX_FRESH, OWN_RESOURCE_MEMBERS, PromptInfo, ResourceInfo, Tool, is_mime_type
from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate

RESOURCE_KEY = "dev.toolhall/resource"
PROMPT_KEY = "dev.toolhall/prompt"
_OBJECT_FIX = "write an object with the members that are documented for it"


def write_kind(tool: Tool) -> JsonObject:
    """Return the members of a method that make it a resource or a prompt; none for a tool."""
    if tool.resource is not None:
        stated = msgspec.to_builtins(tool.resource)
        return {RESOURCE_KEY: {key: value for key, value in stated.items() if key not in OWN_RESOURCE_MEMBERS}}
    return {} if tool.prompt is None else {PROMPT_KEY: msgspec.to_builtins(tool.prompt)}


def read_kind(reader: DocumentReader, tool: Tool, method: JsonObject, path: str) -> Tool:
    """Return the tool as the resource or prompt that its method declares."""
    resource: ResourceInfo | None = read_extension(reader, method, RESOURCE_KEY, path, ResourceInfo)
    prompt: PromptInfo | None = read_extension(reader, method, PROMPT_KEY, path, PromptInfo)
    if resource is not None and prompt is not None:
        reader.add_error(path, "kind", "a method is a resource or a prompt, not both; leave out one of the two members")
        return tool
    if resource is not None:
        key, problems = RESOURCE_KEY, _resource_problems(resource, tool)
    elif prompt is not None:
        key, problems = PROMPT_KEY, _prompt_problems(prompt, tool)
    else:
        return tool
    if tool.effect not in (None, "reads"):
        reader.add_error(path, "kind", "a resource or a prompt only reads; leave out its effect")
    for problem in problems:
        reader.add_error(f"{path}/{escape_pointer(key)}", "kind", problem)
    return msgspec.structs.replace(tool, effect="reads", annotations=None, resource=resource, prompt=prompt)


def read_extension(reader: DocumentReader, holder: JsonObject, key: str, path: str, kind: Any) -> Any:
    """Return the member `key` as this type, None if it is not there; a member of another form is an error."""
    if key not in holder:
        return None
    try:
        return msgspec.convert(reader.object(holder[key], f"{path}/{escape_pointer(key)}", _OBJECT_FIX), kind)
    except msgspec.ValidationError as error:
        reader.add_error(f"{path}/{escape_pointer(key)}", "beyond", str(error))
        return None


def _resource_problems(info: ResourceInfo, tool: Tool) -> Iterator[str]:
    """Yield what keeps a resource from being served, each with the fix: a tool server's word is not trusted."""
    try:
        template = UriTemplate(info.uri, any_path=info.any_path)
    except BadUriTemplate as bad:
        yield str(bad)
        return
    variables = set(template.variables)
    for name in sorted(variables ^ _parameters(tool)):
        has, lacks = ("URI", "params") if name in variables else ("params", "URI")
        yield f"the {has} of {info.uri!r} names {name!r}, and its {lacks} does not; name it in both"
    for name in sorted(set(tool.input.get("required", ())) & set(template.query_variables)):
        yield f"{name!r} is in the query, which may be missing; leave it out of what params require"
    yield from _completion_problems(info.completes, variables)
    own = [name for name in OWN_RESOURCE_MEMBERS if getattr(info, name)]
    if own:  # its text would not be cleaned, its paths not checked, or it would be listed as what it is not
        yield f"{own[0]} is for the hall's own code; leave it out"
    if info.mime_type is not None and not is_mime_type(info.mime_type):
        yield "mime_type is a type and a subtype, such as 'text/markdown'"
    if info.size is not None and info.size < 0:
        yield "size is a number of bytes"
    if not 0 <= info.fresh <= MAX_FRESH:
        yield "fresh is a number of seconds, at most a year"
    if info.notes is not None and not 0 <= (info.notes.priority or 0) <= 1:
        yield "the priority in notes is from 0 to 1"


def _prompt_problems(info: PromptInfo, tool: Tool) -> Iterator[str]:
    return _completion_problems(info.completes, _parameters(tool))


def _completion_problems(completes: tuple[str, ...], arguments: set[str]) -> Iterator[str]:
    for name in sorted(set(completes) - arguments):
        yield f"completes names {name[:64]!r}, which is no argument; leave it out"


def _parameters(tool: Tool) -> set[str]:
    declared = tool.input.get("properties")
    return set(declared) if isinstance(declared, dict) else set()
