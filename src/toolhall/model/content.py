"""Content blocks (text, image, audio, resource), and what is made of them: Message, Reply and Result."""

from typing import Literal, TypeAlias

import msgspec

from toolhall.model.json import Json, JsonObject

Audience: TypeAlias = Literal["user", "assistant"]
Role: TypeAlias = Audience


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    """Annotations of a block: its audience, its priority (0 to 1), when it last changed (ISO 8601)."""

    audience: tuple[Audience, ...] | None = None
    priority: float | None = None
    last_modified: str | None = None


class Text(msgspec.Struct, frozen=True):
    """A block of text."""

    text: str
    notes: Notes | None = None
    meta: JsonObject | None = None


class Image(msgspec.Struct, frozen=True):
    """An image: raw bytes and their MIME type."""

    data: bytes
    mime_type: str = "image/png"
    notes: Notes | None = None
    meta: JsonObject | None = None


class Audio(msgspec.Struct, frozen=True):
    """Audio: raw bytes and their MIME type."""

    data: bytes
    mime_type: str = "audio/wav"
    notes: Notes | None = None
    meta: JsonObject | None = None


class ResourceLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link to a resource that the client may read by itself."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    notes: Notes | None = None
    meta: JsonObject | None = None


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource embedded in the result: text, or raw bytes."""

    uri: str
    content: str | bytes
    mime_type: str | None = None
    notes: Notes | None = None
    meta: JsonObject | None = None


Content: TypeAlias = Text | Image | Audio | ResourceLink | Resource
CONTENT_TYPES = (Text, Image, Audio, ResourceLink, Resource)


class Message(msgspec.Struct, frozen=True):
    """One message of a prompt: who speaks, and one block."""

    role: Role
    content: Content

    @classmethod
    def user(cls, content: str | Content) -> "Message":
        """Return a message of the user."""
        return cls("user", Text(content) if isinstance(content, str) else content)

    @classmethod
    def assistant(cls, content: str | Content) -> "Message":
        """Return a message of the model."""
        return cls("assistant", Text(content) if isinstance(content, str) else content)


class Reply(msgspec.Struct, frozen=True):
    """A complete tool result: content blocks for the model, a value for programs, metadata for the client."""

    content: tuple[Content, ...] = ()
    value: Json = msgspec.UNSET
    meta: JsonObject | None = None
    is_error: bool = False


class TextOnlyReply(Reply, frozen=True):
    """A reply of a lenient upstream, whose value was left out because it breaks the tool's output schema."""


class Result(msgspec.Struct, frozen=True):
    """The result of a finished call: `encoded` is the checked value as JSON bytes (None: there is no value).

    What a resource reads is its content; the messages of a prompt are its content, with the role of each block.
    """

    encoded: bytes | None
    content: tuple[Content, ...] = ()
    text: str | None = None  # the value itself, if the tool returned a string
    meta: JsonObject | None = None
    is_error: bool = False
    roles: tuple[Role, ...] = ()  # of a prompt's messages, one for each block
