"""Requests to an upstream for a call of the hall: `call_request`, and `with_replies` for one that goes on."""

from collections.abc import Mapping

import msgspec

from toolhall.dialects.mcp.client_requests import argument_headers
from toolhall.execution.client_link import client_features
from toolhall.execution.upstream.call_hooks import hears_events
from toolhall.mcp_client.session import McpRequest
from toolhall.model.errors import ToolFailed
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import Call
from toolhall.model.tool import Tool
from toolhall.model.uri_expansion import BadUriTemplate, expand_template


def call_request(tool: Tool, call: Call, arguments: JsonObject, meta: JsonObject) -> McpRequest:
    """The request for a call; credentials and what depends on the session come later."""
    name = tool.upstream_name or tool.name
    features, wants_events = client_features(call.link), hears_events(call.link)
    if tool.kind == "resource":
        uri = upstream_uri(tool, call.requested_name, arguments)
        params: JsonObject = {"uri": uri}
        return McpRequest(
            method="resources/read", params=params, name=uri, meta=meta, features=features, wants_events=wants_events
        )
    if tool.kind == "prompt":
        params = {"name": name, "arguments": arguments} if arguments else {"name": name}
        return McpRequest(
            method="prompts/get", params=params, name=name, meta=meta, features=features, wants_events=wants_events
        )
    encoded = call.encoded_arguments if arguments is call.arguments else None
    return McpRequest(
        method="tools/call",
        params={"name": name},
        encoded_arguments=encoded or encode(arguments),
        name=name,
        argument_headers=argument_headers(tool.header_parameters, arguments) if tool.header_parameters else (),
        meta=meta,
        features=features,
        wants_events=wants_events,
    )


def upstream_uri(tool: Tool, requested: str | None, arguments: JsonObject) -> str:
    """The URI as the upstream knows it: what was requested, unless the hall offers it under another one."""
    own = tool.upstream_name
    uri = None if tool.resource is None else tool.resource.uri
    if own is None or (own == uri and requested is not None):
        return requested or uri or tool.name
    if "{" not in own:
        return own
    try:
        return expand_template(own, arguments)
    except (BadUriTemplate, TypeError, ValueError) as error:
        raise ToolFailed("the URI cannot be written as its upstream knows it", detail=str(error)) from None


def with_replies(request: McpRequest, replies: Mapping[str, JsonObject], state: str | None) -> McpRequest:
    """The same request with the answers to the questions of the upstream, and its own state as it came."""
    params = {**request.params, "inputResponses": dict(replies)}
    if state is not None:
        params["requestState"] = state
    return msgspec.structs.replace(request, params=params)
