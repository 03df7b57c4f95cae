"""Messages of a server, as a client reads them."""

import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.client_messages import (
    MAX_BATCH,
    MAX_ERROR_TEXT,
    ListChanged,
    ProgressNotification,
    QuestionCancelled,
    ResourceUpdated,
    ServerNotification,
    SubscriptionAcknowledged,
    read_error,
    read_incoming,
    read_incoming_batch,
    read_notification,
    read_params,
)
from toolhall.model.errors import Malformed
from toolhall.model.json import encode
from toolhall.model.messages import LogEvent, ProgressEvent


@each_row(
    ("body", "response", "request", "error"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', True, False, False),
        (b'{"id":"a","result":{},"error":null,"more":1}', True, False, False),
        (b'{"id":null,"error":{"code":-32000,"message":"x"}}', True, False, True),
        (b'{"error":{}}', True, False, True),
        (b'{"id":2,"method":"ping"}', False, True, False),
        (b'{"method":"notifications/x"}', False, False, False),
        (b'{"id":null,"method":"notifications/x"}', False, False, False),
    ],
)
def test_message_is_known_by_its_members(body: bytes, response: bool, request: bool, error: bool) -> None:
    message = read_incoming(body)
    assert (message.is_response, message.is_request, message.has_error) == (response, request, error)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"id":1}', b"1", b'{"method":3}', b'{"id":{}}', b"[" * 100_000, b"\xff"]
)
def test_what_is_no_message_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_incoming(body)


def test_batch_is_read_message_by_message() -> None:
    assert [each.id for each in read_incoming_batch(b' [{"id":1,"result":1},{"id":2,"method":"ping"}]')] == [1, 2]
    assert [each.id for each in read_incoming_batch(b'{"id":1,"result":1}')] == [1]
    with pytest.raises(Malformed):
        read_incoming_batch(b"[1]")
    with pytest.raises(Malformed, match=str(MAX_BATCH)):
        read_incoming_batch(encode([{"method": "x"}] * (MAX_BATCH + 1)))


@each_row(
    ("error", "code", "text"),
    [
        (b'{"code":-32601,"message":"none"}', -32601, "none"),
        (b'{"code":-3.0,"message":"a\\nb\\u001b[31m c"}', -3, "a b c"),
        (b"{}", -32603, "the server gave no reason"),
        (b'"no"', -32603, "the server answered with an error that cannot be read"),
        (b'{"code":1e300,"message":"x"}', -32603, "x"),
        (b'{"message":"' + b"x" * 9000 + b'"}', -32603, "x" * MAX_ERROR_TEXT),
    ],
)
def test_error_is_read_whatever_it_is(error: bytes, code: int, text: str) -> None:
    read = read_error(read_incoming(b'{"id":1,"error":' + error + b"}"))
    assert (read.code, read.message) == (code, text)


def notification(method: str, params: object) -> bytes:
    return encode({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})


@each_row(
    ("body", "read"),
    [
        (
            notification("progress", {"progressToken": 3, "progress": 1, "total": 2, "message": "m"}),
            ProgressNotification(3, ProgressEvent(1, 2, "m")),
        ),
        (
            notification("progress", {"progressToken": "3", "progress": 0.5}),
            ProgressNotification("3", ProgressEvent(0.5)),
        ),
        (notification("progress", {"progressToken": 3, "progress": True}), None),
        (notification("progress", {"progress": 1}), None),
        (notification("message", {"level": "info", "data": [1], "logger": "l"}), LogEvent("info", [1], "l")),
        (notification("message", {"level": "loud", "data": 1}), None),
        (notification("message", []), None),
        (notification("tools/list_changed", None), ListChanged("tools")),
        (notification("resources/list_changed", []), ListChanged("resources")),
        (b'{"method":"notifications/prompts/list_changed"}', ListChanged("prompts")),
        (notification("resources/updated", {"uri": "a:b"}), ResourceUpdated("a:b")),
        (notification("resources/updated", {"uri": 1}), None),
        (notification("cancelled", {"requestId": "q", "reason": "r"}), QuestionCancelled("q")),
        (notification("subscriptions/acknowledged", {"notifications": {}}), SubscriptionAcknowledged()),
        (notification("tasks/status", {}), None),
        (b'{"id":1,"result":{}}', None),
    ],
)
def test_notification_is_read_or_ignored(body: bytes, read: ServerNotification | None) -> None:
    assert read_notification(read_incoming(body)) == read


def test_params_are_an_object_or_absent() -> None:
    assert read_params(read_incoming(b'{"method":"a"}')) == {}
    assert read_params(read_incoming(b'{"method":"a","params":null}')) == {}
    with pytest.raises(Malformed, match="must be an object"):
        read_params(read_incoming(b'{"method":"a","params":[1]}'))
