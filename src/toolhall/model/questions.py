"""Requests that a running tool makes of its client (elicitation, sampling, roots), and their replies."""

from typing import Literal, TypeAlias

import msgspec

from toolhall.model.json import Json, JsonObject


class Form(msgspec.Struct, frozen=True):
    """Fill in these few fields (a flat object schema)."""

    message: str
    schema: JsonObject


class Visit(msgspec.Struct, frozen=True):
    """Open this page; what happens there stays between the person and the page."""

    message: str
    url: str
    id: str


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Let the client's model continue these messages."""

    messages: tuple[JsonObject, ...]
    max_tokens: int
    system: str | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()


class Roots(msgspec.Struct, frozen=True):
    """Name the folders that the client works in."""


Question: TypeAlias = Form | Visit | Sample | Roots


class Filled(msgspec.Struct, frozen=True):
    """The reply to a form or a visit."""

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject | None = None


class Sampled(msgspec.Struct, frozen=True):
    """What the client's model said."""

    role: str
    content: Json
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """All text blocks of the message, joined."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        texts = [block.get("text") for block in blocks if isinstance(block, dict)]
        return "".join(text for text in texts if isinstance(text, str))


class Root(msgspec.Struct, frozen=True):
    """One folder of the client's."""

    uri: str
    name: str | None = None


class Rooted(msgspec.Struct, frozen=True):
    """The client's folders."""

    roots: tuple[Root, ...]


Answered: TypeAlias = Filled | Sampled | Rooted
