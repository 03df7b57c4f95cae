"""Every message on the page of dialects is sent, and answered as the page says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from toolhall import Toolhall
from toolhall.dialects.catalogs import DIALECTS
from toolhall.examples import calculator, weather

PAGE = (Path(__file__).parents[2] / "docs/reference/dialects.md").read_text()
EXAMPLES = re.findall(r"<!-- POST (\S+) -->\n```json\n(.*?)```\n\n```json\n(.*?)```", PAGE, re.DOTALL)


async def posted(hall: Toolhall, path: str, body: bytes) -> Any:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": ("127.0.0.1", 1)}
    await hall(scope, receive, send)
    return json.loads(sent[1]["body"])


def masked(said: Any, found: Any) -> Any:
    """What was found, with `*` wherever the page says so."""
    if said == "*":
        return "*"
    if isinstance(said, dict) and isinstance(found, dict):
        return {key: masked(said.get(key), value) for key, value in found.items()}
    return found


@pytest.mark.parametrize(("path", "request_body", "reply"), EXAMPLES, ids=range(len(EXAMPLES)))
async def test_dialects_page_example_request_gets_the_reply_on_the_page(
    path: str, request_body: str, reply: str
) -> None:
    with Toolhall(calculator, weather) as hall:
        found = await posted(hall, path, request_body.encode())
    said = json.loads(reply)
    assert masked(said, found) == said


def test_dialects_page_has_examples_of_every_dialect_but_mcp() -> None:
    assert {path.split("/")[1] for path, *_ in EXAMPLES} == {"oxp", "hub", "machine", "tools"}


def test_dialects_page_names_every_dialect() -> None:
    assert [name for name in DIALECTS if f"`{name}`" not in PAGE] == []
