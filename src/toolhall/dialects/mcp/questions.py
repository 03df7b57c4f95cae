"""Questions to the client as MCP requests, and the replies it sends back."""

from toolhall.dialects.mcp.refusals import bad_params
from toolhall.dialects.mcp.revisions import Revision
from toolhall.model.json import Json, JsonObject
from toolhall.model.question import Answered, Filled, Form, Question, Root, Rooted, Roots, Sample, Sampled, Visit


def feature_of(question: Question) -> str:
    """The client capability that a question needs."""
    match question:
        case Form():
            return "elicitation"
        case Visit():
            return "elicitation.url"
        case Sample():
            return "sampling"
        case Roots():
            return "roots"


def write_question(question: Question, revision: Revision) -> JsonObject:
    """The method and params of the request that puts this question."""
    match question:
        case Form(message, schema):
            mode = {"mode": "form"} if revision.visits else {}
            return {"method": "elicitation/create", "params": {**mode, "message": message, "requestedSchema": schema}}
        case Visit(message, url, key):
            params = {"mode": "url", "message": message, "url": url}
            return {
                "method": "elicitation/create",
                "params": params if revision.modern else {**params, "elicitationId": key},
            }
        case Sample():
            return {"method": "sampling/createMessage", "params": _sample(question)}
        case Roots():
            return {"method": "roots/list", "params": {}}


def _sample(sample: Sample) -> JsonObject:
    params: JsonObject = {"messages": list(sample.messages), "maxTokens": sample.max_tokens}
    if sample.system is not None:
        params["systemPrompt"] = sample.system
    if sample.temperature is not None:
        params["temperature"] = sample.temperature
    if sample.stop:
        params["stopSequences"] = list(sample.stop)
    return params


def read_reply(question: Question, reply: Json, key: str) -> Answered:
    """The client's reply to a question, or a refusal that names the key."""
    if not isinstance(reply, dict):
        raise bad_params(f"the reply to {key!r} must be an object")
    match question:
        case Form() | Visit():
            return _filled(reply, key)
        case Sample():
            return _sampled(reply, key)
        case Roots():
            return _rooted(reply, key)


def _filled(reply: JsonObject, key: str) -> Filled:
    action, content = reply.get("action"), reply.get("content")
    if action not in ("accept", "decline", "cancel") or not (content is None or isinstance(content, dict)):
        raise bad_params(f"the reply to {key!r} needs an action (accept, decline or cancel) and content as an object")
    return Filled(action, content)


def _sampled(reply: JsonObject, key: str) -> Sampled:
    role, content, model = reply.get("role"), reply.get("content"), reply.get("model", "")
    if not isinstance(role, str) or not isinstance(model, str) or not isinstance(content, dict | list):
        raise bad_params(f"the reply to {key!r} needs role, content and model")
    reason = reply.get("stopReason")
    return Sampled(role, content, model, reason if isinstance(reason, str) else None)


def _rooted(reply: JsonObject, key: str) -> Rooted:
    roots = reply.get("roots")
    if not isinstance(roots, list) or not all(
        isinstance(root, dict) and isinstance(root.get("uri"), str) and isinstance(root.get("name"), str | None)
        for root in roots
    ):
        raise bad_params(f"the reply to {key!r} needs roots, a list of objects with a uri and perhaps a name")
    return Rooted(tuple(Root(root["uri"], root.get("name")) for root in roots))
