"""Questions to the client, and what it replies."""

from typing import Any

import pytest

from toolhall.dialects.mcp.questions import feature_of, read_reply, write_question
from toolhall.dialects.mcp.refusals import McpRefusal
from toolhall.dialects.mcp.revisions import JUNE, MODERN, NOVEMBER, Revision
from toolhall.model.json import Json, JsonObject
from toolhall.model.question import Answered, Filled, Form, Question, Root, Rooted, Roots, Sample, Sampled, Visit

SCHEMA: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}
FORM, VISIT, ROOTS = Form("Which?", SCHEMA), Visit("Please", "https://example.org", "v1"), Roots()
SAMPLE = Sample(messages=({"role": "user", "content": {"type": "text", "text": "hi"}},), max_tokens=5)


@pytest.mark.parametrize(
    ("question", "feature"),
    [(FORM, "elicitation"), (VISIT, "elicitation.url"), (SAMPLE, "sampling"), (ROOTS, "roots")],
    ids=repr,
)
def test_each_question_needs_a_feature(question: Question, feature: str) -> None:
    assert feature_of(question) == feature


def elicitation(**params: Any) -> JsonObject:
    return {"method": "elicitation/create", "params": params}


WRITTEN: list[tuple[Question, Revision, JsonObject]] = [
    (FORM, JUNE, elicitation(message="Which?", requestedSchema=SCHEMA)),
    (FORM, NOVEMBER, elicitation(mode="form", message="Which?", requestedSchema=SCHEMA)),
    (FORM, MODERN, elicitation(mode="form", message="Which?", requestedSchema=SCHEMA)),
    (VISIT, NOVEMBER, elicitation(mode="url", message="Please", url="https://example.org", elicitationId="v1")),
    (VISIT, MODERN, elicitation(mode="url", message="Please", url="https://example.org")),
    (
        SAMPLE,
        MODERN,
        {"method": "sampling/createMessage", "params": {"messages": list(SAMPLE.messages), "maxTokens": 5}},
    ),
    (
        Sample(messages=(), max_tokens=1, system="Be brief", temperature=0.0, stop=("\n",)),
        JUNE,
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
    (ROOTS, NOVEMBER, {"method": "roots/list", "params": {}}),
]


@pytest.mark.parametrize(("question", "revision", "written"), WRITTEN, ids=range(len(WRITTEN)))
def test_a_question_is_written(question: Question, revision: Revision, written: JsonObject) -> None:
    assert write_question(question, revision) == written


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


@pytest.mark.parametrize(("question", "reply", "answered"), READ, ids=range(len(READ)))
def test_a_reply_is_read(question: Question, reply: Json, answered: Answered) -> None:
    assert read_reply(question, reply, "q1") == answered


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


@pytest.mark.parametrize(("question", "reply"), BAD, ids=range(len(BAD)))
def test_a_bad_reply_is_refused_by_its_key(question: Question, reply: Json) -> None:
    with pytest.raises(McpRefusal, match="the reply to 'q1'") as caught:
        read_reply(question, reply, "q1")
    assert caught.value.code == -32602
