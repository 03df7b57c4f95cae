"""Results of a server: calls, reads, prompts, completions and lists."""

from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.client_results import (
    ListReader,
    read_call_result,
    read_completion_result,
    read_prompt_result,
    read_resource_result,
)
from toolhall.dialects.mcp.content import write_block
from toolhall.model.content import Audio, Content, Image, Message, Notes, Resource, ResourceLink, Text
from toolhall.model.errors import Malformed
from toolhall.model.json import encode
from toolhall.model.messages import Completion, Freshness

NOTES = Notes(audience=("user",), priority=0.5, last_modified="2026-01-01")
BLOCKS: list[Content] = [
    Text("a"),
    Text("a", NOTES, {"k": 1}),
    Image(b"\x00\xff", "image/png"),
    Audio(b"\x01", "audio/wav", NOTES),
    ResourceLink(uri="a:b", name="n", title="t", description="d", mime_type="text/plain", size=3, notes=NOTES),
    Resource(uri="a:b", content="text", mime_type="text/plain", meta={"k": 1}),
    Resource(uri="a:b", content=b"\x00bytes"),
]


@each_row("block", BLOCKS)
def test_every_kind_of_block_is_read_as_it_was_written(block: Content) -> None:
    result = read_call_result(encode({"content": [write_block(block)]}))
    assert (result.content, result.unknown_kinds) == ((block,), ())


@each_row(
    ("block", "kind"),
    [
        ({"type": "video", "data": "x"}, "video"),
        ({"type": "image", "data": "not base64!", "mimeType": "a/b"}, "image"),
        ({"type": "image", "data": ""}, "image"),
        ({"type": "resource", "resource": {"uri": "a:b"}}, "resource"),
        ({"type": "text"}, "text"),
        ({"text": "a"}, ""),
        ("text", ""),
        (None, ""),
    ],
)
def test_unknown_block_becomes_its_json_as_text(block: Any, kind: str) -> None:
    result = read_call_result(encode({"content": [block]}))
    assert result.content == (Text(encode(block).decode()),)
    assert result.unknown_kinds == (kind,)


def test_unknown_members_are_dropped() -> None:
    result = read_call_result(encode({"content": [{"type": "text", "text": "a", "name": "n"}], "more": 1}))
    assert result.content == (Text("a"),)


@each_row(
    ("wire", "structured", "is_error"),
    [
        ({"content": []}, None, False),
        ({}, None, False),
        ({"content": None, "isError": None, "structuredContent": None}, None, False),
        ({"structuredContent": {"a": 1}}, b'{"a":1}', False),
        ({"structuredContent": [1], "resultType": "complete", "isError": True}, b"[1]", True),
    ],
)
def test_value_stays_raw_and_errors_are_kept(wire: Any, structured: bytes | None, is_error: bool) -> None:
    result = read_call_result(encode(wire))
    assert (None if result.structured is None else bytes(result.structured), result.is_error) == (structured, is_error)


def test_meta_loses_what_belongs_to_the_protocol() -> None:
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "s"}, "progressToken": 1, "com.example/a": 1}
    assert read_call_result(encode({"_meta": meta})).meta == {"com.example/a": 1}


@pytest.mark.parametrize("body", [b"[]", b"1", b'{"content":{}}', b'{"isError":"yes"}', b'{"resultType":"task"}', b"["])
def test_what_is_no_result_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_call_result(body)


def test_resource_is_read_with_its_freshness() -> None:
    wire = {"contents": [{"uri": "a:b", "text": "t"}, {"uri": "a:c", "blob": "AA=="}]}
    contents = (Resource(uri="a:b", content="t"), Resource(uri="a:c", content=b"\x00"))
    assert read_resource_result(encode(wire)).contents == contents
    assert read_resource_result(encode(wire)).freshness == Freshness()
    fresh = read_resource_result(encode({**wire, "ttlMs": 1500, "cacheScope": "public"})).freshness
    assert fresh == Freshness(1.5, True)


@pytest.mark.parametrize("wire", [{}, {"contents": [1]}, {"contents": [{"uri": "a:b"}]}, {"contents": {}}])
def test_unreadable_contents_are_malformed(wire: Any) -> None:
    with pytest.raises(Malformed):
        read_resource_result(encode(wire))


def test_prompt_is_read_message_by_message() -> None:
    wire = {"description": "d", "messages": [{"role": "assistant", "content": {"type": "text", "text": "a"}}]}
    prompt = read_prompt_result(encode(wire))
    assert (prompt.messages, prompt.description) == ((Message("assistant", Text("a")),), "d")


@pytest.mark.parametrize("messages", [None, [1], [{"role": "system", "content": {}}], [{"role": "user", "content": 1}]])
def test_unreadable_prompt_is_malformed(messages: Any) -> None:
    with pytest.raises(Malformed):
        read_prompt_result(encode({"messages": messages}))


def test_completion_is_read() -> None:
    read = read_completion_result(encode({"completion": {"values": ["a", 1, "b"], "total": 9, "hasMore": True}}))
    assert read == Completion(("a", "b"), 9)
    with pytest.raises(Malformed):
        read_completion_result(b"{}")


def page(*names: Any, cursor: Any = None, **more: Any) -> bytes:
    tools = [{"name": name} if isinstance(name, str) else name for name in names]
    return encode({"tools": tools, **({} if cursor is None else {"nextCursor": cursor}), **more})


def test_list_is_read_page_by_page() -> None:
    reader = ListReader("tools/list")
    assert reader.add(page("a", 5, cursor="")) == ""
    assert reader.add(page("b", cursor="2", cacheScope="private")) == "2"
    assert reader.add(page("c")) is None
    assert [each["name"] for each in reader.items] == ["a", "b", "c"]
    assert (reader.dropped, reader.is_shared) == (1, False)


@each_row(
    ("pages", "why"),
    [
        ([page("a", cursor="1"), page("b", cursor="1")], "same page"),
        ([page("a", cursor="1"), page(cursor="2"), page(cursor="1")], "same page"),
        ([b'{"tools":{}}'], "holds no tools"),
        ([b"[]"], "must be an object"),
        ([page(cursor=5)], "cursor"),
        ([page(cursor="x" * 20_000)], "cursor"),
        ([page(cursor=str(number)) for number in range(1_000)], "1000 pages"),
        ([page(*[{}] * 20_001)], "20000"),
    ],
)
def test_list_without_end_is_malformed(pages: list[bytes], why: str) -> None:
    reader = ListReader("tools/list")
    for each in pages[:-1]:
        reader.add(each)
    with pytest.raises(Malformed, match=why):
        reader.add(pages[-1])


def test_other_lists_are_read_by_their_members() -> None:
    reader = ListReader("resources/templates/list")
    assert reader.add(b'{"resourceTemplates":[{"uriTemplate":"a:{b}"}]}') is None
    assert reader.items == [{"uriTemplate": "a:{b}"}]
