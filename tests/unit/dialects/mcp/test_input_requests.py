"""Requests to the client, and its responses."""

from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.input_requests import read_input_response, write_input_request
from toolhall.dialects.mcp.protocol import (
    REVISION_2025_06_18,
    REVISION_2025_11_25,
    REVISION_2026_07_28,
    McpRefusal,
    Revision,
)
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Answered, Filled, Form, Question, Root, Rooted, Roots, Sample, Sampled, Visit

SCHEMA: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}
FORM, VISIT, ROOTS = Form("Which?", SCHEMA), Visit("Please", "https://example.org", "v1"), Roots()
SAMPLE = Sample(messages=({"role": "user", "content": {"type": "text", "text": "hi"}},), max_tokens=5)


def elicitation(**params: Any) -> JsonObject:
    return {"method": "elicitation/create", "params": params}


WRITTEN: list[tuple[Question, Revision, JsonObject]] = [
    (FORM, REVISION_2025_06_18, elicitation(message="Which?", requestedSchema=SCHEMA)),
    (FORM, REVISION_2025_11_25, elicitation(mode="form", message="Which?", requestedSchema=SCHEMA)),
    (FORM, REVISION_2026_07_28, elicitation(mode="form", message="Which?", requestedSchema=SCHEMA)),
    (
        VISIT,
        REVISION_2025_11_25,
        elicitation(mode="url", message="Please", url="https://example.org", elicitationId="v1"),
    ),
    (VISIT, REVISION_2026_07_28, elicitation(mode="url", message="Please", url="https://example.org")),
    (
        SAMPLE,
        REVISION_2026_07_28,
        {"method": "sampling/createMessage", "params": {"messages": list(SAMPLE.messages), "maxTokens": 5}},
    ),
    (
        Sample(messages=(), max_tokens=1, system="Be brief", temperature=0.0, stop=("\n",)),
        REVISION_2025_06_18,
        {
            "method": "sampling/createMessage",
            "params": {
                "messages": [],
                "maxTokens": 1,
                "systemPrompt": "Be brief",
                "temperature": 0.0,
                "stopSequences": ["\n"],
            },
        },
    ),
    (ROOTS, REVISION_2025_11_25, {"method": "roots/list", "params": {}}),
]


@pytest.mark.requirement("SA-1", "SA-2", "EL-1", "EL-3")
@each_row(("question", "revision", "written"), WRITTEN)
def test_write_input_request_by_revision(question: Question, revision: Revision, written: JsonObject) -> None:
    assert write_input_request(question, revision) == written


READ: list[tuple[Question, Json, Answered]] = [
    (FORM, {"action": "accept", "content": {"a": "x"}}, Filled("accept", {"a": "x"})),
    (FORM, {"action": "accept"}, Filled("accept", None)),
    (FORM, {"action": "decline"}, Filled("decline", None)),
    (FORM, {"action": "cancel", "content": None, "_meta": {}}, Filled("cancel", None)),
    (VISIT, {"action": "accept"}, Filled("accept", None)),
    (
        SAMPLE,
        {"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "m", "stopReason": "endTurn"},
        Sampled("assistant", {"type": "text", "text": "yes"}, "m", "endTurn"),
    ),
    (SAMPLE, {"role": "assistant", "content": [], "stopReason": 3}, Sampled("assistant", [], "", None)),
    (ROOTS, {"roots": []}, Rooted(())),
    (
        ROOTS,
        {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "x:"}, {"uri": "y:", "name": None}]},
        Rooted((Root("file:///a", "A"), Root("x:"), Root("y:"))),
    ),
]


@each_row(("question", "reply", "answered"), READ)
def test_read_input_response_valid_is_read(question: Question, reply: Json, answered: Answered) -> None:
    assert read_input_response(question, reply, "q1") == answered


NEVER: list[Json] = [None, [], "x", 3, {}]
BAD: list[tuple[Question, Json]] = [
    *((question, reply) for question in (FORM, VISIT, SAMPLE, ROOTS) for reply in NEVER),
    (FORM, {"action": "yes"}),
    (FORM, {"action": 3}),
    (FORM, {"action": "accept", "content": []}),
    (FORM, {"action": "accept", "content": "a"}),
    (SAMPLE, {"role": 3, "content": {}, "model": "m"}),
    (SAMPLE, {"role": "assistant", "content": "text", "model": "m"}),
    (SAMPLE, {"role": "assistant", "content": {}, "model": 3}),
    (ROOTS, {"roots": {}}),
    (ROOTS, {"roots": ["file:///a"]}),
    (ROOTS, {"roots": [{"name": "a"}]}),
    (ROOTS, {"roots": [{"uri": 3}]}),
    (ROOTS, {"roots": [{"uri": "file:///a", "name": 3}]}),
]


@each_row(("question", "reply"), BAD)
def test_read_input_response_invalid_names_key(question: Question, reply: Json) -> None:
    with pytest.raises(McpRefusal, match="the reply to 'q1'") as caught:
        read_input_response(question, reply, "q1")
    assert caught.value.code == -32602
