"""MCP requests to the client and its responses: elicitation (form and URL), sampling and roots."""

from toolhall.dialects.mcp.protocol import Revision, invalid_params
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Answered, Filled, Form, Question, Root, Rooted, Roots, Sample, Sampled, Visit


def write_input_request(question: Question, revision: Revision) -> JsonObject:
    """The method and params of the request for a question."""
    match question:
        case Form(message, schema):
            mode = {"mode": "form"} if revision.url_elicitation else {}
            return {"method": "elicitation/create", "params": {**mode, "message": message, "requestedSchema": schema}}
        case Visit(message, url, key):
            params = {"mode": "url", "message": message, "url": url}
            return {
                "method": "elicitation/create",
                "params": params if revision.stateless else {**params, "elicitationId": key},
            }
        case Sample():
            return {"method": "sampling/createMessage", "params": _sampling_params(question)}
        case Roots():
            return {"method": "roots/list", "params": {}}


def _sampling_params(sample: Sample) -> JsonObject:
    params: JsonObject = {"messages": list(sample.messages), "maxTokens": sample.max_tokens}
    if sample.system is not None:
        params["systemPrompt"] = sample.system
    if sample.temperature is not None:
        params["temperature"] = sample.temperature
    if sample.stop:
        params["stopSequences"] = list(sample.stop)
    return params


def read_input_response(question: Question, response: Json, key: str) -> Answered:
    """The client's response to a question; raises McpRefusal that names the key."""
    if not isinstance(response, dict):
        raise invalid_params(f"the reply to {key!r} must be an object")
    match question:
        case Form() | Visit():
            return _read_elicit_result(response, key)
        case Sample():
            return _read_sampling_result(response, key)
        case Roots():
            return _read_roots_result(response, key)


def _read_elicit_result(response: JsonObject, key: str) -> Filled:
    action, content = response.get("action"), response.get("content")
    if action not in ("accept", "decline", "cancel") or not (content is None or isinstance(content, dict)):
        raise invalid_params(
            f"the reply to {key!r} needs an action (accept, decline or cancel) and content as an object"
        )
    return Filled(action, content)


def _read_sampling_result(response: JsonObject, key: str) -> Sampled:
    role, content, model = response.get("role"), response.get("content"), response.get("model", "")
    if not isinstance(role, str) or not isinstance(model, str) or not isinstance(content, dict | list):
        raise invalid_params(f"the reply to {key!r} needs role, content and model")
    reason = response.get("stopReason")
    return Sampled(role, content, model, reason if isinstance(reason, str) else None)


def _read_roots_result(response: JsonObject, key: str) -> Rooted:
    roots = response.get("roots")
    if not isinstance(roots, list) or not all(
        isinstance(root, dict) and isinstance(root.get("uri"), str) and isinstance(root.get("name"), str | None)
        for root in roots
    ):
        raise invalid_params(f"the reply to {key!r} needs roots, a list of objects with a uri and perhaps a name")
    return Rooted(tuple(Root(root["uri"], root.get("name")) for root in roots))
