"""Questions of upstreams: `read_question` makes a Question of a request, `write_answer_result` the result for it.

A question comes from outside and is shown to a person, so it is bounded, the name of the upstream stands before it, a
form cannot ask for a secret, and a page must be https and is named with its host.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from toolhall.model.errors import ToolFailed, Unsupported
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import Answered, Filled, Form, Question, Rooted, Roots, Sample, Sampled, Visit
from toolhall.model.secret import looks_secret
from toolhall.model.text import clean_text

MAX_QUESTIONS = 8  # in one answer of an upstream
MAX_QUESTION_BYTES = 32_768
_MAX_MESSAGE = 4_000
_MAX_FIELDS = 64
_MAX_URL = 2_048
_MAX_TOKENS = 1_000_000
# Stand-ins for questions that a client has answered: only their kind is needed to read the answer.
_ANSWERED: Mapping[str, Question] = {
    "form": Form("", {}),
    "visit": Visit("", "", ""),
    "sample": Sample(messages=(), max_tokens=0),
    "roots": Roots(),
}


class BadQuestion(ToolFailed):
    """The upstream asked something that no person is shown."""


def read_question(upstream: str, method: str, params: JsonObject) -> Question:
    """The question of a request; raises BadQuestion, or Unsupported for a method that the hall did not offer."""
    if len(encode(params)) > MAX_QUESTION_BYTES:
        raise _bad(upstream, f"has more than {MAX_QUESTION_BYTES} bytes")
    match method:
        case "elicitation/create":
            return _read_elicitation(upstream, params)
        case "sampling/createMessage":
            return _read_sampling(upstream, params)
        case "roots/list":
            return Roots()
        case _:
            raise Unsupported(clean_text(method[:64]))


def read_input_requests(upstream: str, requests: Json) -> dict[str, Question]:
    """The questions of an `input_required` result of 2026-07-28; raises BadQuestion or Unsupported."""
    if not isinstance(requests, dict) or len(requests) > MAX_QUESTIONS:
        raise _bad(upstream, f"is not an object of at most {MAX_QUESTIONS} requests")
    questions: dict[str, Question] = {}
    for key, request in requests.items():
        params = request.get("params", {}) if isinstance(request, dict) else None
        if not isinstance(params, dict) or not isinstance(request.get("method"), str) or not 0 < len(key) <= 64:
            raise _bad(upstream, "is not a request with a method and params")
        questions[key] = read_question(upstream, request["method"], params)
    return questions


def read_url_elicitations(upstream: str, data: Json) -> dict[str, Question]:
    """The pages in the error -32042 of 2025-11-25, which have to be opened before the call is repeated."""
    listed = data.get("elicitations") if isinstance(data, dict) else None
    pages = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if not 0 < len(pages) <= MAX_QUESTIONS:
        raise _bad(upstream, "names no page")
    visits = [_read_elicitation(upstream, {**page, "mode": "url"}) for page in pages]
    return {f"visit_{number}": visit for number, visit in enumerate(visits, 1)}


def kind_of(question: Question) -> str:
    """The word for a question's kind, for which `answered_question` returns a stand-in."""
    return type(question).__name__.lower()


def answered_question(kind: str) -> Question:
    """A question of this kind, to read a client's answer with; it is never asked."""
    return _ANSWERED[kind]


def write_answer_result(answer: Answered) -> JsonObject:
    """The result of a request of the server, or one of the `inputResponses` of 2026-07-28."""
    match answer:
        case Filled(action, content):
            return {"action": action} if content is None else {"action": action, "content": content}
        case Sampled(role, content, model, reason):
            sampled: JsonObject = {"role": role, "content": content, "model": model}
            return sampled if reason is None else {**sampled, "stopReason": reason}
        case Rooted(roots):
            return {"roots": [{"uri": each.uri} | ({"name": each.name} if each.name else {}) for each in roots]}


def _read_elicitation(upstream: str, params: JsonObject) -> Question:
    message = params.get("message")
    if not isinstance(message, str):
        raise _bad(upstream, "has no message")
    message = clean_text(message[:_MAX_MESSAGE])
    if params.get("mode", "form") == "url":
        url, key = params.get("url"), params.get("elicitationId", "")
        return Visit(f"{upstream} asks you to open {_checked_host(upstream, url)}: {message}", str(url), str(key)[:128])
    schema = params.get("requestedSchema")
    fields = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(fields, dict) or len(fields) > _MAX_FIELDS:
        raise _bad(upstream, f"has no form of at most {_MAX_FIELDS} fields")
    for name, field in fields.items():
        texts = [name, *(field.get(part) for part in ("title", "format") if isinstance(field, dict))]
        if any(isinstance(text, str) and looks_secret(text) for text in texts):
            raise _bad(upstream, f"asks for {clean_text(name[:64])!r}, and a form must not ask for a secret")
    return Form(f"{upstream} asks: {message}", schema)


def _checked_host(upstream: str, url: Json) -> str:
    try:
        parts = urlsplit(url) if isinstance(url, str) and len(url) <= _MAX_URL and url.isprintable() else None
        host = None if parts is None else parts.hostname
    except ValueError:
        parts = host = None
    if parts is None or not host or parts.scheme != "https" or "@" in parts.netloc:
        raise _bad(upstream, "leads to a page that is not https, or has no address")
    return host


def _read_sampling(upstream: str, params: JsonObject) -> Question:
    messages, most = params.get("messages"), params.get("maxTokens")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise _bad(upstream, "has no messages")
    if type(most) is not int or not 0 < most <= _MAX_TOKENS:
        raise _bad(upstream, "states no maxTokens")
    system, stop = params.get("systemPrompt"), params.get("stopSequences", [])
    temperature = params.get("temperature")
    known = {
        "messages": tuple(messages),
        "max_tokens": most,
        "system": system if isinstance(system, str) else None,
        "temperature": temperature if type(temperature) in (int, float) else None,
        "stop": tuple(each for each in stop if isinstance(each, str)) if isinstance(stop, list) else (),
    }
    return msgspec.convert(known, Sample)


def _bad(upstream: str, why: str) -> BadQuestion:
    return BadQuestion(f"a question of the upstream {upstream!r} {why}; it was not shown to anybody")
