"""Questions of upstreams as a person is shown them: with the upstream's name, and none that asks for a secret."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from toolhall.dialects.mcp.client_questions import MAX_QUESTIONS, question_problem
from toolhall.dialects.mcp.client_questions import read_question as read_wire_question
from toolhall.model.errors import Malformed, ToolFailed
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Form, Question, Roots, Sample, Visit

# Stand-ins for questions that a client has answered: only their kind is needed to read the answer.
_ANSWERED: Mapping[str, Question] = {
    "form": Form("", {}),
    "visit": Visit("", "", ""),
    "sample": Sample(messages=(), max_tokens=0),
    "roots": Roots(),
}


def read_question(upstream: str, method: str, params: JsonObject) -> Question:
    """The question of a request as it is shown; raises ToolFailed for one that is not."""
    try:
        question = read_wire_question(method, params)
    except Malformed as bad:
        raise ToolFailed(f"the upstream {upstream!r} asked a question that cannot be read: {bad.message}") from None
    return shown_question(upstream, question)


def shown_question(upstream: str, question: Question) -> Question:
    """The question with the name of who asks before it; raises ToolFailed for one that nobody is shown."""
    problem = question_problem(question)
    if problem is not None:
        raise ToolFailed(f"a question of the upstream {upstream!r} was not shown to anybody: it is {problem}")
    match question:
        case Form(message):
            return msgspec.structs.replace(question, message=f"{upstream} asks: {message}")
        case Visit(message, url):
            host = urlsplit(url).hostname
            return msgspec.structs.replace(question, message=f"{upstream} asks you to open {host}: {message}")
        case _:
            return question


def read_url_elicitations(upstream: str, data: Json) -> dict[str, Question]:
    """The pages in the error -32042 of 2025-11-25, which are opened before the call is repeated; raises ToolFailed."""
    listed = data.get("elicitations") if isinstance(data, dict) else None
    pages = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if not 0 < len(pages) <= MAX_QUESTIONS:
        raise ToolFailed(f"the upstream {upstream!r} wants a page to be opened, and names none that can be read")
    return {
        f"visit_{number}": read_question(upstream, "elicitation/create", {**page, "mode": "url"})
        for number, page in enumerate(pages, 1)
    }


def kind_of(question: Question) -> str:
    """The word for a question's kind, as `answered_question` takes it."""
    return type(question).__name__.lower()


def answered_question(kind: str) -> Question:
    """A question of this kind, to read a client's answer with; it is never asked. KeyError for an unknown kind."""
    return _ANSWERED[kind]
