"""Content blocks in MCP's form."""

from tests.tables import each_row
from toolhall.dialects.mcp.content import write_block
from toolhall.model.content import Audio, Content, Image, Notes, Resource, ResourceLink, Text
from toolhall.model.json import JsonObject, encode

NOTES = Notes(audience=("user",), priority=0.0, last_modified="2026-07-28T00:00:00Z")

BLOCKS: list[tuple[Content, JsonObject]] = [
    (Text("hello"), {"type": "text", "text": "hello"}),
    (Text(""), {"type": "text", "text": ""}),
    (
        Text("hello", NOTES, {"k": 1}),
        {
            "type": "text",
            "text": "hello",
            "annotations": {"audience": ["user"], "priority": 0.0, "lastModified": "2026-07-28T00:00:00Z"},
            "_meta": {"k": 1},
        },
    ),
    (Text("hello", Notes()), {"type": "text", "text": "hello", "annotations": {}}),
    (Image(b"\x00\xff"), {"type": "image", "data": "AP8=", "mimeType": "image/png"}),
    (Audio(b"\x00", "audio/mpeg"), {"type": "audio", "data": "AA==", "mimeType": "audio/mpeg"}),
    (ResourceLink(uri="file:///a", name="a"), {"type": "resource_link", "uri": "file:///a", "name": "a"}),
    (
        ResourceLink(uri="file:///a", name="a", title="A", description="a file", mime_type="text/plain", size=0),
        {
            "type": "resource_link",
            "uri": "file:///a",
            "name": "a",
            "title": "A",
            "description": "a file",
            "mimeType": "text/plain",
            "size": 0,
        },
    ),
    (Resource(uri="file:///a", content="text"), {"type": "resource", "resource": {"uri": "file:///a", "text": "text"}}),
    (
        Resource(uri="file:///a", content=b"\x00", mime_type="image/gif", meta={}),
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "image/gif", "blob": "AA=="}, "_meta": {}},
    ),
]


@each_row(("block", "written"), BLOCKS)
def test_write_block_absent_members_are_left_out(block: Content, written: JsonObject) -> None:
    assert write_block(block) == written
    encode(write_block(block))
