"""ResourceDescription and PromptDescription: resources and prompts as their source describes them in MCP.

A local source writes the same MCP documents that a server sends, so that both are read in one way. What is read of
them (`read_contents`, `read_messages`) is checked here, because a server may send anything.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from toolhall.cli.clients.base import Described, DescribedT, object_or_empty, text_or_none
from toolhall.cli.errors import CommandError
from toolhall.cli.output import pluralize
from toolhall.dialects.mcp.catalog import ID_KEY, LEVEL_KEY
from toolhall.model.json import Json, JsonObject
from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate

Views: TypeAlias = dict[str, JsonObject]  # by dialect, such as mcp@2026-07-28


class ResourceDescription(Described, frozen=True, kw_only=True):
    """A resource, or a URI template of many, as its source describes it."""

    uri: str
    mime_type: str | None = None
    size: int | None = None
    input: JsonObject | None = None  # of the variables; a server does not send it
    views: Views  # its MCP document, by dialect

    @property
    def is_template(self) -> bool:
        """Whether the URI has variables."""
        return "{" in self.uri

    @property
    def heading(self) -> str:
        """What it is called in `inspect`."""
        return self.uri

    @property
    def facts(self) -> dict[str, str | None]:
        """What is stated of it alone, and not of every kind."""
        size = None if self.size is None else f"{self.size:,} bytes"
        return {"kind": "template" if self.is_template else "resource", "type": self.mime_type, "size": size}

    def summary(self) -> JsonObject:
        """The members that `list --json` prints: those of a tool, and its own."""
        stated = {"uriTemplate" if self.is_template else "uri": self.uri, "mimeType": self.mime_type, "size": self.size}
        return self.common_summary("resource", "reads", self.input) | stated

    def document(self) -> JsonObject:
        """The document that `inspect --json` prints."""
        return self.summary() | {"views": self.views}


class PromptDescription(Described, frozen=True, kw_only=True):
    """A prompt as its source describes it."""

    arguments: tuple[JsonObject, ...] = ()
    input: JsonObject | None = None  # of the arguments; a server does not send it
    views: Views  # its MCP document, by dialect

    @property
    def required(self) -> list[str]:
        """The names of the arguments that must be given."""
        return [each["name"] for each in self.arguments if each.get("required") is True]

    @property
    def names(self) -> list[str]:
        """The names of all arguments."""
        return [each["name"] for each in self.arguments]

    @property
    def heading(self) -> str:
        """What it is called in `inspect`."""
        return self.id or self.name

    @property
    def facts(self) -> dict[str, str | None]:
        """What is stated of it alone, and not of every kind."""
        named = (name if name in self.required else f"[{name}]" for name in self.names)
        return {"kind": "prompt", "arguments": ", ".join(named) or "none"}

    def summary(self) -> JsonObject:
        """The members that `list --json` prints: those of a tool, and its own."""
        return self.common_summary("prompt", "reads", self.input) | {"arguments": list(self.arguments)}

    def document(self) -> JsonObject:
        """The document that `inspect --json` prints."""
        return self.summary() | {"views": self.views}


def describe_resource(
    views: Views, *, effective_level: int | None = None, schema: JsonObject | None = None
) -> ResourceDescription | None:
    """The description of a resource by its MCP documents; None if they are none."""
    document = _newest(views)
    uri = document.get("uri", document.get("uriTemplate"))
    common = _common_of(views, effective_level)
    if not isinstance(uri, str) or common is None:
        return None
    size = document.get("size")
    return ResourceDescription(
        **common,
        uri=uri,
        mime_type=text_or_none(document.get("mimeType")),
        size=size if type(size) is int else None,
        input=schema,
    )


def describe_prompt(
    views: Views, *, effective_level: int | None = None, schema: JsonObject | None = None
) -> PromptDescription | None:
    """The description of a prompt by its MCP documents; None if they are none."""
    common, arguments = _common_of(views, effective_level), _newest(views).get("arguments", [])
    if common is None or not isinstance(arguments, list):
        return None
    named = tuple(each for each in arguments if isinstance(each, dict) and isinstance(each.get("name"), str))
    return PromptDescription(**common, arguments=named, input=schema)


def _newest(views: Views) -> JsonObject:
    return views[max(views)]


def _common_of(views: Views, effective_level: int | None) -> JsonObject | None:
    """The members that all descriptions have; None without a name."""
    document = _newest(views)
    name = text_or_none(document.get("name"))
    if name is None:
        return None
    meta = object_or_empty(document.get("_meta"))
    stated_id, level = text_or_none(meta.get(ID_KEY)), meta.get(LEVEL_KEY)
    return {
        "name": name,
        "id": stated_id,
        "title": text_or_none(document.get("title")),
        "description": text_or_none(document.get("description")),
        "version": stated_id.rpartition("@")[2] if stated_id else None,
        "level": level if isinstance(level, int) else None,
        "effective_level": effective_level,
        "views": views,
    }


def find_resource(resources: Iterable[ResourceDescription], uri: str) -> ResourceDescription | None:
    """The resource with this URI, or the first template that it matches."""
    everything = list(resources)
    exact = next((each for each in everything if each.uri == uri), None)
    return exact or next((each for each in everything if each.is_template and _matches(each.uri, uri)), None)


def _matches(template: str, uri: str) -> bool:
    try:
        return UriTemplate(template).match(uri) is not None
    except BadUriTemplate:  # of another server, which may know more of them
        return False


class ReadContent(msgspec.Struct, frozen=True):
    """One of the contents of a resource."""

    uri: str
    content: str | bytes
    mime_type: str | None

    @property
    def about(self) -> str:
        """Its type and size, for people."""
        size = len(self.content.encode() if isinstance(self.content, str) else self.content)
        return f"{self.mime_type or 'of no stated type'}, {pluralize(size, 'byte')}"


def read_contents(result: JsonObject) -> list[ReadContent]:
    """The contents of a result of `resources/read`; CommandError if it has none."""
    contents = result.get("contents")
    read = [_read_content(each) for each in contents] if isinstance(contents, list) else []
    if not read:
        raise CommandError("the server's answer is no resource: it has no contents")
    return read


def _read_content(document: Json) -> ReadContent:
    match document:
        case {"uri": str(uri), "text": str(text)}:
            return ReadContent(uri, text, text_or_none(document.get("mimeType")))
        case {"uri": str(uri), "blob": str(blob)}:
            try:
                return ReadContent(uri, base64.b64decode(blob, validate=True), text_or_none(document.get("mimeType")))
            except (binascii.Error, ValueError):
                raise CommandError(f"the server's answer cannot be read: the blob of {uri} is no base64") from None
        case _:
            raise CommandError("the server's answer is no resource: its contents have no text and no blob")


class PromptMessage(msgspec.Struct, frozen=True):
    """One message of a prompt, with its block of content in MCP's form."""

    role: str
    content: JsonObject


def read_messages(result: JsonObject) -> list[PromptMessage]:
    """The messages of a result of `prompts/get`; CommandError if it has none."""
    match result.get("messages"):
        case [*messages] if messages:
            return [_read_message(each) for each in messages]
        case _:
            raise CommandError("the server's answer is no prompt: it has no messages")


def _read_message(document: Json) -> PromptMessage:
    match document:
        case {"role": "user" | "assistant" as role, "content": {"type": str()} as content}:
            return PromptMessage(role, content)
        case _:
            raise CommandError("the server's answer is no prompt: a message has no role or no content")


def find_described(described: Iterable[DescribedT], name: str) -> DescribedT | None:
    """What has this name, id, or id without its version."""
    everything = list(described)
    for key in ("name", "id", "key"):
        for each in everything:
            if getattr(each, key, None) == name:
                return each
    return None


def plain_result(result: JsonObject) -> JsonObject:
    """The result without what only the protocol needs, as `--json` prints it."""
    meta = object_or_empty(result.get("_meta"))
    own = {key: value for key, value in meta.items() if not key.startswith("io.modelcontextprotocol/")}
    plain = {name: value for name, value in result.items() if name not in ("resultType", "_meta")}
    return plain | ({"_meta": own} if own else {})


def nearest(known: Sequence[str], name: str) -> str | None:
    """The name or URI that is most similar, if any is similar."""
    from difflib import get_close_matches  # lazy: only for a name that is wrong

    return next(iter(get_close_matches(name, known, 1, 0.5)), None)
