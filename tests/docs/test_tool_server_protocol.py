"""Every message on the page of tool servers is read by the other side, and nothing that it says is lost."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_dialects import masked, posted
from tests.unit.execution.remote.fake_tool_server import ServerConnection, fake_tool_server, http_response
from toolhall import ToolFailed, Toolhall
from toolhall.dialects.hub import call_messages, catalog, results
from toolhall.dialects.hub.catalog import write_declaration
from toolhall.dialects.hub.messages import HubRequest
from toolhall.model.content import Result
from toolhall.model.json import encode
from toolhall.model.tool import OWN_RESOURCE_MEMBERS, ResourceInfo

PAGE = (Path(__file__).parents[2] / "docs/reference/tool-servers.md").read_text()
MESSAGES = re.findall(r"<!-- ([a-z ]+) -->\n```json\n(.*?)```(?:\n\n```json\n(.*?)```)?", PAGE, re.DOTALL)


def told(who: str) -> list[str]:
    return [message for side, message, _ in MESSAGES if side == who]


def stated(message: Any) -> Any:
    """A message without what is null, which is the same as not said."""
    if isinstance(message, dict):
        return {key: stated(value) for key, value in message.items() if value is not None}
    return [stated(each) for each in message] if isinstance(message, list) else message


def order_again(order: call_messages.HubMessage) -> bytes:
    match order:
        case call_messages.RemoteCall():
            return call_messages.write_call(order)
        case call_messages.AnswerMessage():
            return call_messages.write_answer(order.id, order.number, order.answers, order.error, later=order.later)
        case HubRequest():
            return call_messages.write_request(str(order.id), order.method, order.params)


def report_again(report: call_messages.ToolServerMessage) -> bytes:
    match report:
        case call_messages.ToolResponseMessage(roles=("user",)):
            messages = results.messages_or_raise(report)
            said_by_whom = Result(
                None, tuple(each.content for each in messages), roles=tuple(each.role for each in messages)
            )
            return results.write_contents(report.id, said_by_whom).body
        case call_messages.ToolResponseMessage(error=None):
            return results.write_result(report.id, results.result_or_raise(report)).body
        case call_messages.ToolResponseMessage(error=said) if said is not None:
            return results.write_failure(report.id, results.read_tool_server_error(said), "Calendar", "create").body
        case call_messages.QuestionMessage():
            return call_messages.write_question(report.id, report.number, report.questions, report.retry_ms)
        case _:
            return encode(report)


@pytest.mark.parametrize("message", told("from the hall"))
def test_tool_server_page_message_of_the_hall_round_trips(message: str) -> None:
    again = json.loads(order_again(call_messages.read_hub_message(message.encode())))
    assert stated(again) == stated(json.loads(message))


@pytest.mark.parametrize("message", told("from the tool server"))
def test_tool_server_page_message_of_a_tool_server_round_trips(message: str) -> None:
    said, again = (
        json.loads(message),
        json.loads(report_again(call_messages.read_tool_server_message(message.encode()))),
    )
    if said.get("error"):  # Python's server adds which tool it was, and what follows from what was said
        again["error"]["details"] = {name: again["error"]["details"][name] for name in said["error"]["details"]}
    assert stated(again) == stated(said)


def test_tool_server_page_declaration_round_trips_and_documents_every_member() -> None:
    message, beside_tools = told("declaration")
    for each in (message, beside_tools):
        assert json.loads(encode(write_declaration(catalog.read(json.loads(each))))) == json.loads(each)
    said = json.loads(message)
    (method,) = said["tool"]["capabilities"]["methods"]
    members = re.findall(
        r"^\| (`[^|]+) \|", PAGE.partition("member of `dev.toolhall/tool`")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert set(re.findall(r"`(\w+)`", " ".join(members))) == {*method["dev.toolhall/tool"], "name"}
    rows = PAGE.partition("member of `dev.toolhall/resource`")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]+) \|", rows, re.MULTILINE))))
    assert named | set(OWN_RESOURCE_MEMBERS) == set(ResourceInfo.__struct_fields__), "those are for the hall's own code"


async def test_tool_server_page_join_messages_get_the_replies_on_the_page() -> None:
    (health,) = [message for message in told("from the tool server") if '"h1"' in message]

    async def answer(body: bytes, wire: ServerConnection) -> None:
        wire.write(http_response(health.replace("h1", json.loads(body)["id"]).encode()))

    lease = ""
    async with fake_tool_server(answer) as server:
        with Toolhall() as hall:
            for side, message, reply in MESSAGES:
                if side != "to the hall":
                    continue
                here = message.replace("LEASE", lease).replace("http://127.0.0.1:9001", server.url)
                found = await posted(hall, "/hub", here.encode())
                assert masked(json.loads(reply), found) == json.loads(reply)
                lease = found["result"].get("lease", lease)
    assert lease


def test_tool_server_page_has_messages_of_every_type() -> None:
    types = {json.loads(message).get("type") for _, message, _ in MESSAGES}
    known = {
        "tool_request",
        "tool_answer",
        "request",
        "tool_progress",
        "tool_log",
        "tool_changed",
        "tool_question",
        "tool_response",
        "response",
    }
    assert types - {None} == known


def test_tool_server_page_error_codes_are_known_to_the_hall() -> None:
    rows = " ".join(re.findall(r"^\| (`[A-Z_]+`[^|]*)\|", PAGE, re.MULTILINE))
    meant = {
        code: type(results.read_tool_server_error(call_messages.ErrorPayload(code)))
        for code in re.findall(r"`([A-Z_]+)`", rows)
    }
    assert len(meant) == 10
    assert [code for code, kind in meant.items() if kind is ToolFailed] == ["TOOL_ERROR"]
