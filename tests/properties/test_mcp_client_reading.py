"""Whatever a server sends, a client reads it or says that it is malformed."""

import json
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from toolhall.dialects.mcp.client_handshake import era_of, read_discover_result, read_initialize_result
from toolhall.dialects.mcp.client_messages import read_error, read_incoming_batch, read_notification, read_params
from toolhall.dialects.mcp.client_questions import read_open_questions
from toolhall.dialects.mcp.client_results import (
    ListReader,
    read_call_result,
    read_completion_result,
    read_prompt_result,
    read_resource_result,
)
from toolhall.model.errors import Malformed
from toolhall.model.json import Json

_KEYS = """
    id method params result error code message data resultType content structuredContent isError _meta type text image
    audio resource resource_link uri name mimeType blob annotations audience priority tools nextCursor messages role
    contents completion values total inputRequests requestState protocolVersion serverInfo capabilities url mode level
    supportedVersions progressToken progress ttlMs requestedSchema maxTokens
"""
KEYS = _KEYS.split()
WORDS = [*KEYS, "notifications/progress", "notifications/message", "elicitation/create", "input_required", "user"]
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(WORDS) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner), max_leaves=20
)
objects = st.dictionaries(st.sampled_from(KEYS), values)
READERS: list[Callable[[bytes], object]] = [
    read_call_result,
    read_resource_result,
    read_prompt_result,
    read_completion_result,
    read_open_questions,
    read_initialize_result,
    read_discover_result,
    ListReader("tools/list").add,
    ListReader("prompts/list").add,
]


def read_everything(body: bytes) -> None:
    for read in READERS:
        try:
            read(body)
        except Malformed:
            continue
    try:
        messages = read_incoming_batch(body)
    except Malformed:
        return
    for message in messages:
        era_of(200, message)
        read_notification(message)
        if message.has_error:
            error = read_error(message)
            assert error.message.isprintable()
        try:
            read_params(message)
        except Malformed:
            continue


@given(st.binary() | st.text().map(str.encode))
def test_bytes_are_read_or_malformed(body: bytes) -> None:
    read_everything(body)


@given(objects | st.lists(objects))
def test_json_is_read_or_malformed(value: Json) -> None:
    read_everything(json.dumps(value).encode(errors="replace"))
