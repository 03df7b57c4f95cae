"""Reads results of an MCP server: calls, reads, prompts, completions, and lists page by page.

Everything here raises Malformed for a result that cannot be read. A call's structured value stays raw: whoever checks
it against a schema decodes it.
"""

import msgspec

from toolhall.dialects.mcp.client_content import read_block, read_meta, read_resource
from toolhall.dialects.mcp.client_messages import decode_object, number_or_none
from toolhall.dialects.mcp.responses import LIST_MEMBERS
from toolhall.model.content import Content, Message, Resource
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Completion, Freshness

MAX_PAGES = 1_000
MAX_ITEMS = 20_000
MAX_CURSOR = 16 * 1024
MAX_COMPLETIONS = 100  # MCP: a server sends no more
_MAX_TTL_MS = 86_400_000
_NULL = msgspec.Raw(b"null")


class ToolCallResult(msgspec.Struct, frozen=True):
    """The result of `tools/call`."""

    content: tuple[Content, ...]
    structured: msgspec.Raw | None = None  # structuredContent as JSON
    is_error: bool = False
    meta: JsonObject | None = None
    unknown_kinds: tuple[str, ...] = ()  # of blocks that became text


class ReadContents(msgspec.Struct, frozen=True):
    """The result of `resources/read`."""

    contents: tuple[Resource, ...]
    freshness: Freshness


class PromptMessages(msgspec.Struct, frozen=True):
    """The result of `prompts/get`."""

    messages: tuple[Message, ...]
    description: str | None = None
    unknown_kinds: tuple[str, ...] = ()


class _WireResult(msgspec.Struct, frozen=True, rename="camel"):
    content: list[Json] | None = None
    structured_content: msgspec.Raw = msgspec.Raw()
    is_error: bool | None = None
    meta: msgspec.Raw = msgspec.field(name="_meta", default=msgspec.Raw())
    result_type: str | None = None


_decode_result = msgspec.json.Decoder(_WireResult).decode


def read_call_result(result: bytes | msgspec.Raw) -> ToolCallResult:
    """Read the result of `tools/call`; see `client_questions` for one that is `input_required`."""
    try:
        wire = _decode_result(result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Malformed("the server answered the call with something that is no result of a tool") from None
    _check_complete(wire.result_type)
    unknown: list[str] = []
    content = tuple([read_block(block, unknown) for block in wire.content or ()])
    structured = wire.structured_content
    has_value = bool(structured) and structured != _NULL
    raw_meta = wire.meta
    meta = read_meta(decode_object(raw_meta, "_meta")) if raw_meta and raw_meta != _NULL else None
    return ToolCallResult(content, structured if has_value else None, bool(wire.is_error), meta, tuple(unknown))


def read_resource_result(result: bytes | msgspec.Raw) -> ReadContents:
    """Read the result of `resources/read`."""
    wire = decode_object(result, "the result")
    _check_complete(wire.get("resultType"))
    listed = wire.get("contents")
    if not isinstance(listed, list):
        raise Malformed("the server answered the read without contents")
    contents = [
        read_resource(each, None, read_meta(each.get("_meta"))) if isinstance(each, dict) else None for each in listed
    ]
    known = tuple(each for each in contents if each is not None)
    if len(known) < len(contents):
        raise Malformed("the server answered the read with contents that are neither text nor bytes in base64")
    return ReadContents(known, read_freshness(wire))


def read_freshness(wire: JsonObject) -> Freshness:
    """How long what was read stays fresh (2026-07-28); servers of older revisions do not say."""
    ttl = number_or_none(wire.get("ttlMs"))
    seconds = min(ttl, _MAX_TTL_MS) / 1000 if ttl is not None and ttl > 0 else 0.0
    return Freshness(seconds, wire.get("cacheScope") == "public")


def read_prompt_result(result: bytes | msgspec.Raw) -> PromptMessages:
    """Read the result of `prompts/get`."""
    wire = decode_object(result, "the result")
    _check_complete(wire.get("resultType"))
    listed, description = wire.get("messages"), wire.get("description")
    if not isinstance(listed, list):
        raise Malformed("the server answered with a prompt that has no messages")
    unknown: list[str] = []
    messages: list[Message] = []
    for each in listed:
        match each:
            case {"role": "user" | "assistant" as role, "content": dict(block)}:
                messages.append(Message(role, read_block(block, unknown)))
            case _:
                raise Malformed("the server answered with a prompt whose messages have no role or content")
    return PromptMessages(tuple(messages), description if isinstance(description, str) else None, tuple(unknown))


def read_completion_result(result: bytes | msgspec.Raw) -> Completion:
    """Read the result of `completion/complete`."""
    match decode_object(result, "the result"):
        case {"completion": {"values": list(values), **rest}}:
            texts = tuple(each for each in values if isinstance(each, str))[:MAX_COMPLETIONS]
            total = rest.get("total")
            return Completion(texts, max(len(texts), total) if type(total) is int else len(texts))
        case _:
            raise Malformed("the server answered the completion without values")


def _check_complete(result_type: Json) -> None:
    if result_type not in (None, "complete"):
        raise Malformed(f"the server answered with a result of type {str(result_type)[:64]!r}, which is not taken here")


# --- lists ------------------------------------------------------------------------------------------------------------


class ListReader:
    """All pages of one list, within bounds; `method` is one of LIST_MEMBERS.

    `items` are the definitions as the server wrote them; what is no object is counted in `dropped`.
    """

    def __init__(self, method: str) -> None:
        self.method = method
        self.items: list[JsonObject] = []
        self.dropped = 0
        self.is_shared = True  # False: the server says that another user may get another list
        self.ttl: float | None = None  # seconds for which the server says that every page of it is fresh
        self._member = LIST_MEMBERS[method]
        self._cursors: set[str] = set()

    def add(self, result: bytes | msgspec.Raw) -> str | None:
        """Take a page; returns the cursor of the next one, or None behind the last. Raises Malformed."""
        page = decode_object(result, f"the answer to {self.method}")
        listed, cursor = page.get(self._member), page.get("nextCursor")
        if not isinstance(listed, list):
            raise Malformed(f"the server's answer to {self.method} holds no {self._member}")
        found = [each for each in listed if isinstance(each, dict)]
        self.items += found
        self.dropped += len(listed) - len(found)
        if seconds := read_freshness(page).seconds:
            self.ttl = seconds if self.ttl is None else min(seconds, self.ttl)
        self.is_shared = self.is_shared and page.get("cacheScope") != "private"
        if len(self.items) > MAX_ITEMS:
            raise Malformed(f"the server lists more than {MAX_ITEMS} {self._member}")
        if cursor is None:
            return None
        if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR:
            raise Malformed(f"the server's answer to {self.method} has a cursor that is no text, or a very long one")
        if cursor in self._cursors:
            raise Malformed(f"the server's answers to {self.method} come back to the same page")
        self._cursors.add(cursor)
        if len(self._cursors) >= MAX_PAGES:
            raise Malformed(f"the server's list of {self._member} has more than {MAX_PAGES} pages")
        return cursor
