"""Questions of an MCP server to its client: elicitation, sampling, roots; as requests, and in `input_required` results.

`read_question` and `write_reply` are the reverse of `input_requests`, which asks a client's questions as a server.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from toolhall.dialects.mcp.client_messages import decode_object, number_or_none
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Answered, Filled, Form, Question, Rooted, Roots, Sample, Sampled, Visit
from toolhall.model.secret import is_secret_name, looks_secret
from toolhall.model.text import clean_text

QUESTION_METHODS = ("elicitation/create", "sampling/createMessage", "roots/list")
MAX_QUESTIONS = 16  # in one result
MAX_STATE_BYTES = 8 * 1024
MAX_TEXT = 16 * 1024
MAX_URL = 8_192
MAX_MESSAGES = 1_000
MAX_FIELDS = 100
MAX_STOPS = 64
_INPUT_REQUIRED = b'"input_required"'
ASKING_METHODS = frozenset({"tools/call", "prompts/get", "resources/read"})
_SAMPLING_OF_TOOLS = ("tools", "toolChoice")


class OpenQuestions(msgspec.Struct, frozen=True):
    """An `input_required` result (2026-07-28): the request is sent again with the replies and the state as it came."""

    questions: Mapping[str, Question]
    state: str | None


def read_open_questions(result: bytes | msgspec.Raw) -> OpenQuestions | None:
    """The questions of an `input_required` result, or None if it is another one; raises Malformed."""
    if bytes(result).find(_INPUT_REQUIRED) < 0:
        return None
    wire = decode_object(result, "the result")
    if wire.get("resultType") != "input_required":
        return None
    asked, state = wire.get("inputRequests"), wire.get("requestState")
    asked = {} if asked is None else asked
    if not isinstance(asked, dict) or not isinstance(state, str | None) or (not asked and state is None):
        raise Malformed("the server wants input, but asks nothing that can be read")
    if len(asked) > MAX_QUESTIONS or (state is not None and len(state.encode()) > MAX_STATE_BYTES):
        raise Malformed(f"the server asks more than {MAX_QUESTIONS} questions, or its state is over {MAX_STATE_BYTES}")
    questions: dict[str, Question] = {}
    for key, request in asked.items():
        match request:
            case {"method": str(method), "params": dict(params)}:
                questions[key] = read_question(method, params, key)
            case {"method": str(method)} if "params" not in request:
                questions[key] = read_question(method, {}, key)
            case _:
                raise Malformed("the server wants input, but asks nothing that can be read")
    return OpenQuestions(questions, state)


def retry_params(params: JsonObject, replies: Mapping[str, Answered], state: str | None) -> JsonObject:
    """The params of the request that answers an `input_required` result."""
    again = {**params, "inputResponses": {key: write_reply(reply) for key, reply in replies.items()}}
    return again if state is None else {**again, "requestState": state}


def read_question(method: str, params: JsonObject, key: str = "") -> Question:
    """The question of a request; `key` names a page to visit that has no id. Raises Malformed."""
    match method, params:
        case "elicitation/create", {"mode": "url", "message": str(message), "url": str(url)}:
            visit_id = params.get("elicitationId", key)
            if len(message) <= MAX_TEXT and len(url) <= MAX_URL and isinstance(visit_id, str):
                return Visit(message, url, visit_id)
        case "elicitation/create", {"message": str(message), "requestedSchema": dict(schema)}:
            if params.get("mode", "form") == "form" and len(message) <= MAX_TEXT:
                return Form(message, schema)
        case "sampling/createMessage", {"messages": list(messages), "maxTokens": int(max_tokens)}:
            return _read_sample(params, messages, max_tokens)
        case "roots/list", _:
            return Roots()
        case _:
            pass
    raise Malformed(f"the server's {method[:64]} cannot be read")


def _read_sample(params: JsonObject, messages: list[Json], max_tokens: int) -> Sample:
    if any(params.get(member) is not None for member in _SAMPLING_OF_TOOLS):
        raise Malformed("the server's sampling request has tools, which were not declared")
    system, stop = params.get("systemPrompt"), params.get("stopSequences")
    if len(messages) > MAX_MESSAGES or not all(isinstance(each, dict) for each in messages):
        raise Malformed("the server's sampling request has messages that cannot be read")
    stops = stop if isinstance(stop, list) else []
    return Sample(
        messages=tuple(messages),
        max_tokens=max_tokens,
        system=system if isinstance(system, str) else None,
        temperature=number_or_none(params.get("temperature")),
        stop=tuple(each for each in stops[:MAX_STOPS] if isinstance(each, str)),
    )


def question_problem(question: Question) -> str | None:
    """Why a question of a server that nobody here wrote is not to be shown to a person, or None.

    A form that asks for a password is phishing, whoever asks, and so is a page that is not encrypted.
    """
    match question:
        case Form(_, schema):
            properties = schema.get("properties")
            fields = properties if isinstance(properties, dict) else {}
            if len(fields) > MAX_FIELDS:
                return f"a form of more than {MAX_FIELDS} fields"
            secret = next((name for name, field in fields.items() if _asks_for_secret(name, field)), None)
            return None if secret is None else f"a form that asks for a secret, {secret[:64]!r}"
        case Visit(_, url):
            return None if _is_safe_page(url) else "a page whose URL is not https://host/..., or that holds a password"
        case _:
            return None


def _asks_for_secret(name: str, field: Json) -> bool:
    """Whether a field is for a secret, by its name, by its format, or by the title that a person reads."""
    if looks_secret(name) or is_secret_name(name):
        return True
    stated = field if isinstance(field, dict) else {}
    title = stated.get("title")
    if stated.get("type", "string") != "string" or "enum" in stated or "oneOf" in stated:
        return False  # what is chosen is no secret
    shown = clean_text(title) if isinstance(title, str) else ""
    return stated.get("format") == "password" or looks_secret(shown) or is_secret_name(shown)


def _is_safe_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    return is_plain and parts.scheme == "https" and bool(host) and "@" not in parts.netloc


def write_reply(reply: Answered) -> JsonObject:
    """The result of a question's request."""
    match reply:
        case Filled(action, content):
            return {"action": action} if content is None else {"action": action, "content": content}
        case Sampled(role, content, model, stop_reason):
            wire: JsonObject = {"role": role, "content": content, "model": model}
            return wire if stop_reason is None else {**wire, "stopReason": stop_reason}
        case Rooted(roots):
            listed = [{"uri": root.uri} | ({} if root.name is None else {"name": root.name}) for root in roots]
            return {"roots": listed}
