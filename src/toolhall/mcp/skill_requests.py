"""Skills in MCP 2026-07-28: answers `skills/list`, `skills/get` and `resources/directory/read`.

A caller sees the skills whose files it may read; any other is answered like one that is not there. Files are looked at
again for each request, so that no digest is older than the request.
"""

from collections.abc import Iterator, Mapping

import msgspec

from toolhall.dialects.mcp.protocol import JsonRpcRequest, invalid_params, method_not_found
from toolhall.dialects.mcp.requests import read_list, read_resource_uri
from toolhall.dialects.mcp.responses import McpEncoder
from toolhall.model.caller import Caller
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse
from toolhall.model.text import clean_text
from toolhall.model.tool import ResourceInfo, Tool
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registry.snapshot import ResourceListing, ToolPages, uri_of

_SKILLS_LIST = "skills/list"
_SKILLS_GET = "skills/get"
SKILL_METHODS = frozenset({_SKILLS_LIST, _SKILLS_GET, "resources/directory/read"})
SKILLS_EXTENSION: Mapping[str, JsonObject] = {"io.modelcontextprotocol/skills": {"directoryRead": True}}
_DIRECTORY_TYPE = "inode/directory"
_SCHEME = "skill://"
_MAX_SHOWN_URI = 1_024


async def answer_skills(
    dispatcher: Dispatcher, encoder: McpEncoder, request: JsonRpcRequest, caller: Caller
) -> WireResponse:
    """Return the response to one of SKILL_METHODS; McpRefusal for what is not there."""
    if not dispatcher.registry.snapshot.resources.has_skills:
        raise method_not_found(request.method)
    await dispatcher.files.refresh()
    resources = dispatcher.visible_snapshot(caller).resources
    if request.method == _SKILLS_LIST:
        return encoder.skills_result(request.id, resources.skill_pages.page(read_list(request).cursor))
    uri = read_resource_uri(request)
    if request.method == _SKILLS_GET:
        skill = resources.skills.get(uri)
        if skill is None:
            raise invalid_params(f"unknown skill: {clean_text(uri[:_MAX_SHOWN_URI])}")
        return encoder.skill_result(request.id, skill, shared=resources.shared)
    children = tuple(_children(resources, uri))
    if not children:
        raise invalid_params(f"there is no folder of a skill by this URI: {clean_text(uri[:_MAX_SHOWN_URI])}")
    pages = ToolPages(children, resources.page_size, shared=resources.shared, key=uri_of)
    return encoder.directory_result(request.id, pages.page(read_list(request).cursor))


def _children(resources: ResourceListing, folder: str) -> Iterator[Tool]:
    """What lies directly in a folder of the skills that are listed: its files, and folders below it, each once."""
    if not folder.startswith(_SCHEME):
        return
    prefix = f"{folder}/"
    seen = set[str]()
    for skill_tool in resources.skills.values():
        info = skill_tool.resource
        if info is None or info.skill is None or not _may_overlap(info.skill.root, prefix):
            continue
        for file in info.skill.files:
            name, is_deeper, _ = file.uri.removeprefix(prefix).partition("/")
            uri = prefix + name
            if not file.uri.startswith(prefix) or uri in seen:
                continue
            seen.add(uri)
            known = resources.skills.get(uri)
            if known is not None:
                yield known
            elif is_deeper:
                yield _child(skill_tool, name, ResourceInfo(uri=uri, mime_type=_DIRECTORY_TYPE))
            else:
                yield _child(skill_tool, name, ResourceInfo(uri=uri, mime_type=file.mime_type, size=file.size))


def _may_overlap(root: str, prefix: str) -> bool:
    return prefix.startswith(f"{root}/") or root.startswith(prefix)


def _child(skill: Tool, name: str, info: ResourceInfo) -> Tool:
    template = skill.resource.template if skill.resource else None
    info = msgspec.structs.replace(info, template=template)
    return msgspec.structs.replace(skill, name=name, description=None, resource=info)
