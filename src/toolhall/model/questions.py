"""Requests that a running tool makes to its client (elicitation, sampling, roots), and the replies.

The class names of the requests are part of the protocol: input keys such as `form_1` are made from them.
"""

from typing import Literal, TypeAlias

import msgspec

from toolhall.model.json import Json, JsonObject


class Form(msgspec.Struct, frozen=True):
    """Elicitation by form: ask the person to fill in a few fields (a flat object schema)."""

    message: str
    schema: JsonObject


class Visit(msgspec.Struct, frozen=True):
    """Elicitation by URL: ask the person to open a page; what happens there does not pass through the client."""

    message: str
    url: str
    id: str


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling: ask the client's model to continue these messages."""

    messages: tuple[JsonObject, ...]
    max_tokens: int
    system: str | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()


class Roots(msgspec.Struct, frozen=True):
    """Ask for the folders that the client works in."""


Question: TypeAlias = Form | Visit | Sample | Roots


class Filled(msgspec.Struct, frozen=True):
    """The reply to a form or a visit."""

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject | None = None


class Sampled(msgspec.Struct, frozen=True):
    """The reply of the client's model."""

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
    """One folder that the client works in."""

    uri: str
    name: str | None = None


class Rooted(msgspec.Struct, frozen=True):
    """The reply to a request for roots."""

    roots: tuple[Root, ...]


Answered: TypeAlias = Filled | Sampled | Rooted
