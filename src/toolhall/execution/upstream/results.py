"""What a call of an upstream returns: values of the runner for results of MCP; raises BadOutput."""

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec

from toolhall.dialects.mcp.client_results import (
    ToolCallResult,
    read_call_result,
    read_completion_result,
    read_prompt_result,
    read_resource_result,
)
from toolhall.model.content import Content, Message, Reply, Resource, ResourceLink, Text, TextOnlyReply
from toolhall.model.errors import BadOutput, Malformed, ToolFailed
from toolhall.model.json import JsonObject
from toolhall.schema.validator import Validator

OWN_PREFIX = "dev.toolhall/"  # what only halls say of themselves
_log = logging.getLogger("toolhall.upstreams")
ResultT = TypeVar("ResultT")


def linked(content: tuple[Content, ...], shown_uri: Callable[[str], str]) -> tuple[Content, ...]:
    """The blocks with the URIs that resources of their upstream have here; the same object if none has another."""
    if not any(isinstance(each, ResourceLink | Resource) for each in content):
        return content
    return tuple(_linked_block(each, shown_uri) for each in content)


def _linked_block(block: Content, shown_uri: Callable[[str], str]) -> Content:
    if not isinstance(block, ResourceLink | Resource) or (uri := shown_uri(block.uri)) == block.uri:
        return block
    return msgspec.structs.replace(block, uri=uri)


def tool_reply(name: str, raw: bytes | msgspec.Raw, lenient: Validator | None = None) -> Reply:
    """What a tool returned. With the validator of its output (the upstream is `lenient`), a bad value is left out.

    An error of the tool keeps its content, and its value is not checked.
    """
    result = _read(read_call_result, raw)
    _note_unknown(name, result.unknown_kinds)
    content, meta = result.content, _foreign_meta(result.meta)
    value_text = () if result.structured is None else (Text(bytes(result.structured).decode()),)
    if result.is_error:
        return Reply(content or value_text or (Text(ToolFailed.message),), meta=meta, is_error=True)
    if result.structured is None:
        return Reply(content, meta=meta) if lenient is None else TextOnlyReply(content, meta=meta)
    value = _decode_value(result)
    if lenient is not None and not lenient.accepts(value):
        return TextOnlyReply(content or value_text, meta=meta)
    return Reply(content, value, meta)


def resource_contents(
    raw: bytes | msgspec.Raw, upstream_uri: str, uri: str, shown_uri: Callable[[str], str]
) -> list[Resource]:
    """What a resource reads; what the upstream calls `upstream_uri` is known here as `uri`."""
    read = _read(read_resource_result, raw).contents
    uris = [uri if each.uri == upstream_uri else shown_uri(each.uri) for each in read]
    return [msgspec.structs.replace(each, uri=here) for each, here in zip(read, uris, strict=True)]


def prompt_messages(name: str, raw: bytes | msgspec.Raw) -> list[Message]:
    """What a prompt says."""
    result = _read(read_prompt_result, raw)
    _note_unknown(name, result.unknown_kinds)
    return list(result.messages)


def completions(raw: bytes | msgspec.Raw) -> list[str]:
    """The completions of an argument."""
    return list(_read(read_completion_result, raw).values)


def _read(read: Callable[[bytes | msgspec.Raw], ResultT], raw: bytes | msgspec.Raw) -> ResultT:
    try:
        return read(raw)
    except Malformed as bad:
        raise BadOutput(f"the upstream returned something that cannot be read: {bad.message}") from None
    except RecursionError:
        raise BadOutput("the upstream returned something that is nested too deeply") from None


def _decode_value(result: ToolCallResult) -> object:
    try:
        return msgspec.json.decode(result.structured or b"null")
    except (msgspec.MsgspecError, RecursionError):
        raise BadOutput("the upstream returned a value that cannot be read") from None


def _note_unknown(name: str, kinds: tuple[str, ...]) -> None:
    if kinds:
        _log.warning(
            "%s returned content of unknown kinds (%s), which is passed on as text", name, ", ".join(kinds[:8])
        )


def _foreign_meta(meta: JsonObject | None) -> JsonObject | None:
    """`_meta` without what an upstream says in the name of a hall."""
    if meta is None:
        return None
    return {key: each for key, each in meta.items() if not key.startswith(OWN_PREFIX)} or None
