# ruff: noqa: N802 - tests carry the names of their rows
"""What is read over REST is harmless to browsers, and what a caller may not read is as if it were not there."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.harness.asgi_client import NOBODY, post_json, send
from tests.harness.http_client import Response
from tests.harness.mcp_messages import encoded
from toolhall import Config, Resource, Toolhall, Toolkit, prompt, resource
from toolhall.registration.access import NewKey

SCRIPT = "<script>fetch('/api/keys', {method: 'POST'})</script>"
ACTIVE = (
    "text/html", "TEXT/HTML; charset=utf-7", "image/svg+xml", "application/xhtml+xml", "text/xml", "application/xml",
    "application/pdf", "multipart/x-mixed-replace; boundary=x", "application/octet-stream", "text/markdown", "a/b",
)  # fmt: skip
LOADED = (
    "text/javascript", "application/javascript", "Text/JavaScript;charset=utf-8", "text/javascript1.5", "text/jscript",
    "application/ecmascript", "application/x-javascript", "text/livescript", "text/css", "text/css; charset=utf-8",
    "application/wasm", "text/cache-manifest", "application/manifest+json", "text/xsl", "application/xslt+xml",
)  # fmt: skip
MALFORMED = (
    "text/html\r\nset-cookie: a=b", "text/html\x00", "text", "", "text/html;", "text/html; charset=utf-8; x",
    "text/ht ml", "image/png\n", "text/html, text/plain", 'text/plain; name="a"b"', "é/é",
)  # fmt: skip


class Evil(Toolkit, version="1.0.0", level=0):
    """Resources of somebody who is not trusted."""

    @resource("evil://{+mime}")
    async def page(self, mime: str) -> Resource:
        """A script, in any type."""
        return Resource(uri=f"evil://{mime}", content=SCRIPT, mime_type=mime)

    @resource("evil-bytes://{+mime}")
    async def blob(self, mime: str) -> Resource:
        """The same as bytes."""
        return Resource(uri=f"evil-bytes://{mime}", content=SCRIPT.encode(), mime_type=mime)


async def read(scheme: str, mime_type: str) -> Response:
    """The response to a read of the script in this type."""
    with Toolhall(Evil) as hall:
        (entry,) = (each for each in hall.registry.snapshot.resources.entries if each.tool.id.tool == scheme)
        uri = entry.uri_template.expand({"mime": mime_type}) if entry.uri_template else ""
        return await send(hall, "GET", f"/resources/read?uri={uri.replace('%', '%25').replace('+', '%2B')}")


@pytest.mark.threat("G14")
@pytest.mark.parametrize("scheme", ["page", "blob"])
@pytest.mark.parametrize("mime_type", ACTIVE)
async def test_G14_active_content_has_no_origin_and_is_not_shown(scheme: str, mime_type: str) -> None:
    """A page, a picture with a script or a document of an unknown type is downloaded, and runs nowhere."""
    reply = await read(scheme, mime_type)
    assert (reply.status, reply.body) == (200, SCRIPT.encode())
    assert reply.headers["content-disposition"].startswith("attachment")
    assert_harmless(reply)


@pytest.mark.threat("G14")
@pytest.mark.parametrize("scheme", ["page", "blob"])
@pytest.mark.parametrize("mime_type", LOADED)
async def test_G14_scripts_and_styles_are_plain_text(scheme: str, mime_type: str) -> None:
    """What a page could load from its own origin, whatever the other headers say, is text."""
    reply = await read(scheme, mime_type)
    assert (reply.status, reply.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    assert_harmless(reply)


@pytest.mark.threat("G14")
@pytest.mark.threat("E8")
@pytest.mark.parametrize("scheme", ["page", "blob"])
@pytest.mark.parametrize("mime_type", MALFORMED)
async def test_G14_type_that_is_none_is_never_sent(scheme: str, mime_type: str) -> None:
    """A type that browsers could read in two ways, or as two headers, becomes one that means nothing."""
    reply = await read(scheme, mime_type)
    if reply.status == 200:  # some of these cannot be written in a URI
        assert reply.headers["content-type"] in ("text/plain; charset=utf-8", "application/octet-stream")
        assert "set-cookie" not in reply.headers
        assert_harmless(reply)
    else:
        assert reply.status == 404


def assert_harmless(reply: Response) -> None:
    """Assert the headers of everything that is not our own."""
    headers = reply.headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not re.search(r"utf-?7", headers["content-type"]) or "attachment" in headers["content-disposition"]
    assert headers["cache-control"] == "private, no-cache"


class Safe(Toolkit, version="1.0.0", level=5):
    """Things that need a grant."""

    @resource("safe://box")
    async def box(self) -> str:
        """What is in the box."""
        return "gold"

    @resource("safe://box/{number}")
    async def part(self, number: int) -> str | None:
        """One part."""
        return "gold" if number < 3 else None

    @part.complete("number")
    async def numbers(self) -> list[str]:
        return ["1", "2"]

    @prompt(name="safe_letter")
    async def letter(self, tone: str) -> str:
        """A letter."""
        return tone


class Asked:
    """A hall, and requests by a caller without grants."""

    def __init__(self, hall: Toolhall, key: str) -> None:
        self._hall = hall
        self._key = {"authorization": f"Bearer {key}"}

    async def get(self, path: str) -> Response:
        return await send(self._hall.http, "GET", path, headers=self._key, client=NOBODY)

    async def post(self, path: str, body: Any) -> Response:
        return await post_json(self._hall.http, path, encoded(body), self._key)


@asynccontextmanager
async def asked() -> AsyncGenerator[Asked]:
    """A hall in which nobody may read what is in the safe."""
    with Toolhall(Safe, Evil, config=Config(profile="server", resources_as_tools=True)) as hall:
        await hall.open()
        _, key = await hall.access.keys.create(NewKey(name="eve"), "test")
        yield Asked(hall, key)


HIDDEN = [("safe://box", "none://box"), ("safe://box/1", "none://box/1"), ("safe://box/x", "none://box/x")]


@pytest.mark.threat("B11")
@pytest.mark.parametrize(("hidden", "unknown"), HIDDEN)
async def test_B11_resource_that_may_not_be_read_is_answered_like_none(hidden: str, unknown: str) -> None:
    """Not one byte differs, but for the name that was asked for; nor in the tool that reads."""
    async with asked() as eve:
        one, other = [await eve.get(f"/resources/read?uri={uri}") for uri in (hidden, unknown)]
        assert one.status == other.status == 404
        assert one.body.replace(hidden.encode(), b"") == other.body.replace(unknown.encode(), b"")
        assert one.headers == other.headers
        by_tool = [await eve.post("/tools/Resources/read", {"uri": uri}) for uri in (hidden, unknown)]
        assert {each.status for each in by_tool} == {409}
        assert by_tool[0].body.replace(hidden.encode(), b"") == by_tool[1].body.replace(unknown.encode(), b"")


@pytest.mark.threat("B11")
async def test_B11_prompts_completions_and_lists_show_nothing_of_what_is_hidden() -> None:
    """Prompts, completions, lists and tools of what a caller may not see do not exist for it."""
    pairs: list[tuple[str, Any, str, Any]] = [
        ("/prompts/safe_letter", {"tone": "kind"}, "/prompts/none_letter", {"tone": "kind"}),
        ("/prompts/safe_letter", {}, "/prompts/none_letter", {}),
        ("/tools/Safe/part", {"number": 1}, "/tools/None/part", {"number": 1}),
        ("/tools/Safe/part", {"number": "x"}, "/tools/None/part", {"number": "x"}),
        (
            "/complete",
            {"prompt": "safe_letter", "argument": "tone"},
            "/complete",
            {"prompt": "none_letter", "argument": "tone"},
        ),
        (
            "/complete",
            {"resource": "safe://box/{number}", "argument": "number"},
            "/complete",
            {"resource": "none://box/{number}", "argument": "number"},
        ),
    ]
    async with asked() as eve:
        for path, body, other_path, other_body in pairs:
            one, other = await eve.post(path, body), await eve.post(other_path, other_body)
            assert one.status == other.status == 404, (path, one)
            same = re.sub(rb"(?i)\bsafe", b"", one.body), re.sub(rb"(?i)\bnone", b"", other.body)
            assert same[0] == same[1]
        for path in ("/resources", "/resources?templates=true", "/prompts", "/tools", "/openapi.json"):
            assert b"safe" not in (await eve.get(path)).body.lower(), path
        assert b"safe" not in (await eve.post("/tools/Resources/list", {})).body.lower()
