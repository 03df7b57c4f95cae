"""Questions of a server to its client, and the replies."""

from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.client_questions import (
    OpenQuestions,
    question_problem,
    read_open_questions,
    read_question,
    retry_params,
    write_reply,
)
from toolhall.dialects.mcp.input_requests import read_input_response, write_input_request
from toolhall.dialects.mcp.protocol import REVISION_2025_11_25, REVISION_2026_07_28, Revision
from toolhall.model.errors import Malformed
from toolhall.model.json import encode
from toolhall.model.messages import Answered, Filled, Form, Question, Root, Rooted, Roots, Sample, Sampled, Visit

FORM = Form("Which?", {"type": "object", "properties": {"city": {"type": "string"}}})
SAMPLE = Sample(messages=({"role": "user"},), max_tokens=5, system="s", temperature=0.5, stop=("\n",))


@pytest.mark.parametrize("revision", [REVISION_2025_11_25, REVISION_2026_07_28])
@pytest.mark.parametrize("question", [FORM, Visit("m", "https://a.example", "k"), SAMPLE, Roots()])
def test_question_is_read_as_it_was_written(question: Question, revision: Revision) -> None:
    wire = write_input_request(question, revision)
    assert read_question(wire["method"], wire["params"], "k") == question


@each_row(
    ("question", "reply"),
    [
        (FORM, Filled("accept", {"city": "Oslo"})),
        (FORM, Filled("decline")),
        (SAMPLE, Sampled("assistant", {"type": "text", "text": "hi"}, "m", "endTurn")),
        (SAMPLE, Sampled("assistant", [], "m")),
        (Roots(), Rooted((Root("file:///a", "a"), Root("file:///b")))),
    ],
)
def test_reply_is_read_as_it_was_written(question: Question, reply: Answered) -> None:
    assert read_input_response(question, write_reply(reply), "key") == reply


@each_row(
    ("method", "params"),
    [
        ("elicitation/create", {}),
        ("elicitation/create", {"message": 1, "requestedSchema": {}}),
        ("elicitation/create", {"mode": "other", "message": "m", "requestedSchema": {}}),
        ("elicitation/create", {"message": "m" * 20_000, "requestedSchema": {}}),
        ("elicitation/create", {"mode": "url", "message": "m", "url": "u" * 9_000}),
        ("sampling/createMessage", {"messages": []}),
        ("sampling/createMessage", {"messages": [1], "maxTokens": 5}),
        ("sampling/createMessage", {"messages": [], "maxTokens": 5, "tools": []}),
        ("sampling/other", {}),
    ],
)
def test_question_that_cannot_be_read_is_malformed(method: str, params: Any) -> None:
    with pytest.raises(Malformed):
        read_question(method, params)


@each_row(
    ("question", "problem"),
    [
        (FORM, None),
        (Form("m", {"properties": {"password": {}}}), "asks for a secret"),
        (Form("m", {"properties": {"api_key": {}}}), "asks for a secret"),
        (Form("m", {"properties": {"a": {"type": "string", "title": "Your Pass\u200bword"}}}), "asks for a secret"),
        (Form("m", {"properties": {"a": {"type": "string", "format": "password"}}}), "asks for a secret"),
        (Form("m", {"properties": {"a": {"type": "boolean", "title": "Pin this note"}}}), None),
        (Form("m", {"properties": {"a": {"type": "string", "enum": ["x"], "title": "Token kind"}}}), None),
        (Form("m", {"properties": {f"f{number}": {} for number in range(101)}}), "100 fields"),
        (Visit("m", "https://a.example/x?y", "k"), None),
        *[
            (Visit("m", url, "k"), "URL is not https")
            for url in (
                "http://a.example",
                "https://u:p@a.example",
                "javascript:1",
                "https://",
                "https://[",
                "https://ä.b",
            )
        ],
        (SAMPLE, None),
        (Roots(), None),
    ],
)
@pytest.mark.threat("G15")
def test_question_that_phishes_has_a_problem(question: Question, problem: str | None) -> None:
    found = question_problem(question)
    assert (found is None) if problem is None else (found is not None and problem in found)


def test_open_questions_are_read_with_their_state() -> None:
    asked = {"a": write_input_request(FORM, REVISION_2026_07_28), "b": {"method": "roots/list"}}
    result = encode({"resultType": "input_required", "inputRequests": asked, "requestState": "s"})
    assert read_open_questions(result) == OpenQuestions({"a": FORM, "b": Roots()}, "s")
    again = retry_params({"name": "t"}, {"a": Filled("cancel")}, "s")
    assert again == {"name": "t", "inputResponses": {"a": {"action": "cancel"}}, "requestState": "s"}
    assert "requestState" not in retry_params({}, {}, None)


def test_state_alone_is_a_round_without_questions() -> None:
    assert read_open_questions(b'{"resultType":"input_required","requestState":"s"}') == OpenQuestions({}, "s")


@pytest.mark.parametrize("wire", [{"content": []}, {"content": [{"type": "text", "text": "input_required"}]}])
def test_other_results_are_no_questions(wire: Any) -> None:
    assert read_open_questions(encode(wire)) is None


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"inputRequests": []},
        {"inputRequests": {"a": 1}},
        {"inputRequests": {"a": {"method": "ping", "params": {}}}},
        {"requestState": 5},
        {"requestState": "s" * 9_000},
        {"inputRequests": {str(number): {"method": "roots/list"} for number in range(17)}},
    ],
)
def test_questions_that_cannot_be_read_are_malformed(members: Any) -> None:
    with pytest.raises(Malformed):
        read_open_questions(encode({"resultType": "input_required", **members}))
