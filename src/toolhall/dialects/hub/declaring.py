"""A toolkit as its tool server declares it when it joins: in the hub's words, and whole."""

from toolhall.dialects.hub import catalog
from toolhall.dialects.hub.beyond import TOOL_KEY, TOOLKIT_KEY, write_about, write_beyond
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool


def declaration(tools: tuple[Tool, ...]) -> JsonObject:
    """One document for the tools of one toolkit, of one version."""
    document = catalog.write(tools)
    toolkit = document["tool"]
    for method, tool in zip(toolkit["capabilities"]["methods"], tools, strict=True):
        if said := write_beyond(tool):
            method[TOOL_KEY] = said
    if about := write_about(tools[0].about):
        toolkit[TOOLKIT_KEY] = about
    return document
