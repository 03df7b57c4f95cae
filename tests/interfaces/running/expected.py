"""What goes through every runner unchanged: values of every kind, and one block of each."""

import base64
import json
from typing import Any

from tests.harness.http_client import Message

VALUES: dict[str, Any] = {
    "object": {"a": 1, "b": {"c": [True, None]}},
    "empty object": {},
    "object that looks wrapped": {"result": 1},
    "object with a key of ours": {"wrapped": True, "nothing": True, "content": []},
    "text": "plain",
    "empty text": "",
    "unicode": 'Grüße, мир, 世界, 🎈, \t\n"quoted" \\ </script>',
    "number": 0.1,
    "small number": 5e-324,
    "integer": -7,
    "largest integer that is exact everywhere": 2**53 - 1,
    "list": [1, "two", None, [3.5]],
    "empty list": [],
    "list that looks like blocks": [{"type": "text", "text": "not a block"}],
    "true": True,
    "null": None,
    "nested": json.loads('{"deep":[' * 20 + "1" + "]}" * 20),
}

BLOCKS: list[Message] = [
    {
        "type": "text",
        "text": "Grüße 🎈",
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-02T03:04:05Z"},
        "_meta": {"example.com/kind": "greeting"},
    },
    {
        "type": "image",
        "data": base64.b64encode(bytes(range(256))).decode(),
        "mimeType": "image/png",
    },
    {"type": "audio", "data": "UklGRgAA", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "memo://1", "text": "a memo", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "memo://2", "blob": "AP8=", "mimeType": "application/octet-stream"}},
    {
        "type": "resource_link",
        "uri": "https://example.com/3",
        "name": "three",
        "title": "Three",
        "description": "The third",
        "size": 3,
    },
]
