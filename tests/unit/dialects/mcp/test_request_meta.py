"""Revision, capabilities, log level and progress token of a request."""

from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.protocol import (
    REVISION_2025_06_18,
    REVISION_2025_11_25,
    REVISION_2026_07_28,
    REVISIONS,
    STATEFUL_REVISIONS,
    SUPPORTED_VERSIONS,
    JsonRpcRequest,
    McpRefusal,
    negotiate_revision,
)
from toolhall.dialects.mcp.requests import (
    RequestMeta,
    is_stateless_request,
    read_log_level,
    read_progress_token,
    read_request_meta,
)
from toolhall.model.json import JsonObject
from toolhall.model.messages import CLIENT_FEATURES, LOG_LEVELS

PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientCapabilities": {}}


def request(meta: Any = None, **params: Any) -> JsonRpcRequest:
    return JsonRpcRequest(1, "tools/list", params if meta is None else {**params, "_meta": meta})


def refusal(meta: Any) -> McpRefusal:
    with pytest.raises(McpRefusal) as caught:
        read_request_meta(request(meta))
    return caught.value


def test_revisions_are_three() -> None:
    assert SUPPORTED_VERSIONS == ("2026-07-28", "2025-11-25", "2025-06-18")
    assert REVISIONS == {
        "2025-06-18": REVISION_2025_06_18,
        "2025-11-25": REVISION_2025_11_25,
        "2026-07-28": REVISION_2026_07_28,
    }
    assert set(STATEFUL_REVISIONS) == {"2025-06-18", "2025-11-25"}


@each_row(
    ("requested", "answered"),
    [
        ("2025-06-18", REVISION_2025_06_18),
        ("2025-11-25", REVISION_2025_11_25),
        ("2026-07-28", REVISION_2025_11_25),
        ("2024-11-05", REVISION_2025_11_25),
        ("", REVISION_2025_11_25),
    ],
)
def test_negotiate_revision_is_stateful(requested: str, answered: Any) -> None:
    assert negotiate_revision(requested) is answered


def test_stateless_request_has_version() -> None:
    assert is_stateless_request(request(META))
    assert is_stateless_request(request({f"{PREFIX}protocolVersion": None}))
    assert not is_stateless_request(request({"progressToken": 1}))
    assert not is_stateless_request(request("text"))
    assert not is_stateless_request(request())


def test_request_meta_full_is_read() -> None:
    meta = {
        **META,
        f"{PREFIX}clientCapabilities": {"sampling": {}},
        f"{PREFIX}logLevel": "warning",
        "progressToken": "p1",
        f"{PREFIX}clientInfo": {"name": "any"},
    }
    assert read_request_meta(request(meta)) == RequestMeta(REVISION_2026_07_28, {"sampling": {}}, "warning", "p1")


def test_request_meta_minimal_is_read() -> None:
    assert read_request_meta(request(META)) == RequestMeta(REVISION_2026_07_28, {}, None, None)


@each_row(
    "meta",
    [
        None,
        "text",
        [],
        {},
        {f"{PREFIX}protocolVersion": "2026-07-28"},
        {f"{PREFIX}clientCapabilities": {}},
        {**META, f"{PREFIX}protocolVersion": 20260728},
        {**META, f"{PREFIX}clientCapabilities": []},
        {**META, f"{PREFIX}clientCapabilities": None},
    ],
)
def test_request_meta_missing_is_refused(meta: Any) -> None:
    error = refusal(meta)
    assert (error.code, error.status) == (-32602, 400)


@each_row("version", ["2025-11-25", "2024-11-05", "", "x" * 100])
def test_request_meta_unsupported_version_lists_supported(version: str) -> None:
    error = refusal({**META, f"{PREFIX}protocolVersion": version})
    assert (error.code, error.status) == (-32022, 400)
    assert error.data == {"supported": list(SUPPORTED_VERSIONS), "requested": version[:32]}


@each_row("level", LOG_LEVELS)
def test_log_level_valid_is_read(level: str) -> None:
    assert read_log_level(level) == level


@each_row("level", ["", "WARNING", "trace", 3, None, ["info"]])
def test_log_level_invalid_is_refused(level: Any) -> None:
    with pytest.raises(McpRefusal, match="the log level must be one of debug, info"):
        read_log_level(level)


@each_row("token", [0, 7, "", "p1", 2**60])
def test_progress_token_valid_is_read(token: Any) -> None:
    assert read_progress_token(request({"progressToken": token})) == token


@each_row("meta", [None, {}, {"progressToken": None}, "text"])
def test_progress_token_may_be_absent(meta: Any) -> None:
    assert read_progress_token(request(meta)) is None


@each_row("token", [1.5, True, [], {}])
def test_progress_token_invalid_is_refused(token: Any) -> None:
    with pytest.raises(McpRefusal, match="progressToken must be a string or a whole number"):
        read_progress_token(request({"progressToken": token}))


@each_row(
    ("capabilities", "feature", "able"),
    [
        ({}, "elicitation", False),
        ({"elicitation": {}}, "elicitation", True),
        ({"elicitation": {"form": {}}}, "elicitation", True),
        ({"elicitation": {"url": {}}}, "elicitation", False),
        ({"elicitation": {}}, "elicitation.url", False),
        ({"elicitation": {"form": {}}}, "elicitation.url", False),
        ({"elicitation": {"url": {}}}, "elicitation.url", True),
        ({"elicitation": {"form": {}, "url": {}}}, "elicitation.url", True),
        ({"elicitation": None}, "elicitation", False),
        ({"elicitation": True}, "elicitation", False),
        ({"sampling": {}}, "sampling", True),
        ({"sampling": {"tools": {}}}, "sampling", True),
        ({"roots": {"listChanged": True}}, "roots", True),
        ({"sampling": {}}, "roots", False),
    ],
)
def test_supports_declared_capabilities_only(capabilities: Any, feature: str, able: bool) -> None:
    assert RequestMeta(REVISION_2026_07_28, capabilities).supports(feature) is able


@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"roots": {}, "sampling": {}},
        {"elicitation": {}},
        {"elicitation": {"url": {}}},
        {"elicitation": {"form": {}, "url": {}}, "roots": 3, "else": {}},
    ],
)
def test_features_are_those_that_the_client_supports(capabilities: JsonObject) -> None:
    meta = RequestMeta(REVISION_2026_07_28, capabilities)
    assert meta.features == tuple(name for name in CLIENT_FEATURES if meta.supports(name))
