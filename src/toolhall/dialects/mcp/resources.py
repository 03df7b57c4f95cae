"""MCP resources: definitions of resources and templates, the contents of what is read, and entries of skills."""

from typing import cast, get_args

from toolhall.dialects.findings import DocumentReader
from toolhall.dialects.mcp.catalog import read_common, write_icons_and_meta
from toolhall.dialects.mcp.content import write_annotations, write_contents
from toolhall.dialects.mcp.protocol import Revision
from toolhall.model.content import Audience, Notes, Resource, Result
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Freshness
from toolhall.model.tool import ResourceInfo, Tool
from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate

_AUDIENCES = get_args(Audience)


def read_resource(document: Json) -> Tool:
    """Read the definition of a resource, or of a template; raises BadDocument with every finding.

    A template that cannot be matched here is read, too: its variables are unknown then.
    """
    reader = DocumentReader("mcp")
    document = reader.object(document, "")
    key = "uriTemplate" if "uriTemplate" in document else "uri"
    if "uri" in document and key == "uriTemplate":
        reader.add_error("/uriTemplate", "both", "keep one of 'uri' and 'uriTemplate': it is a resource or a template")
    uri = reader.string(document, key, "") or ""
    if ("{" in uri) != (key == "uriTemplate"):
        fix = "this is no template; write it as 'uri'" if key == "uriTemplate" else "write a template as 'uriTemplate'"
        reader.add_error(f"/{key}", "uri", fix)
    size = document.get("size") if key == "uri" else None
    if size is not None and (type(size) is not int or size < 0):
        reader.add_error("/size", "size", "give the number of bytes")
        size = None
    info = ResourceInfo(
        uri=uri,
        mime_type=reader.string(document, "mimeType", "", required=False),
        size=size,
        notes=_read_notes(reader, document) if document.get("annotations") is not None else None,
    )
    common = read_common(reader, document)
    reader.raise_findings()
    return Tool(**common, input=_variables_schema(uri), effect="reads", resource=info)


def write_resource(tool: Tool, revision: Revision) -> JsonObject:
    """Write the definition of one resource, or of a template."""
    info = resource_info(tool)
    document: JsonObject = {"uriTemplate" if info.is_template else "uri": info.uri, "name": tool.name}
    stated = (("title", tool.title), ("description", tool.description), ("mimeType", info.mime_type))
    document |= {key: value for key, value in stated if value is not None}
    if info.size is not None and not info.is_template:
        document["size"] = info.size
    if info.notes is not None:
        document["annotations"] = write_annotations(info.notes)
    write_icons_and_meta(tool, revision, document)
    return document


def write_read_result(result: Result, revision: Revision, freshness: Freshness) -> JsonObject:
    """Write what was read; in MCP 2026-07-28 with the time for which a client may keep it."""
    document: JsonObject = {
        "contents": [write_contents(block) for block in result.content if isinstance(block, Resource)]
    }
    if revision.stateless:
        document["ttlMs"] = int(freshness.seconds * 1000)
        document["cacheScope"] = "public" if freshness.shared else "private"
    if result.meta:
        document["_meta"] = result.meta
    return document


def resource_info(tool: Tool) -> ResourceInfo:
    """The ResourceInfo of a resource; TypeError for anything else."""
    if tool.resource is None:
        raise TypeError(f"{tool.id} is no resource")
    return tool.resource


def write_skill(tool: Tool) -> JsonObject:
    """Write the entry of the skill whose SKILL.md this resource is."""
    skill = resource_info(tool).skill
    if skill is None:
        raise TypeError(f"{tool.name} is no SKILL.md")
    return {
        "uri": skill.uri,
        "frontmatter": skill.front_matter,
        "resources": [{"uri": each.uri, "digest": f"sha256:{each.sha256}", "size": each.size} for each in skill.files],
    }


def _read_notes(reader: DocumentReader, document: JsonObject) -> Notes:
    stated = reader.object(document["annotations"], "/annotations")
    audience, priority = stated.get("audience"), stated.get("priority")
    if audience is not None:
        named = reader.strings(audience, "/annotations/audience")
        if any(each not in _AUDIENCES for each in named):
            reader.add_error("/annotations/audience", "audience", f"name {' or '.join(_AUDIENCES)}")
        audience = cast(tuple[Audience, ...], named)
    if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int | float)):
        reader.add_error("/annotations/priority", "priority", "give a number from 0 to 1")
        priority = None
    changed = reader.string(stated, "lastModified", "/annotations", required=False)
    return Notes(audience=audience, priority=priority, last_modified=changed)


def _variables_schema(uri: str) -> JsonObject:
    """The input schema of what MCP says of a template: texts by the names of its variables."""
    try:
        template = UriTemplate(uri)
    except BadUriTemplate:
        return {"type": "object"}
    required = [name for name in template.variables if name not in template.query_variables]
    schema: JsonObject = {"type": "object", "properties": {name: {"type": "string"} for name in template.variables}}
    return schema | ({"required": required} if required else {}) | {"additionalProperties": False}
