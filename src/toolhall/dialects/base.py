"""Protocols of a dialect's tool definitions: Catalog, WriteOnlyCatalog, and the Loss of what it cannot express."""

from typing import Protocol

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool

# Where a definition says that its tool will go; no dialect but OpenAPI has a word of its own for that.
DEPRECATED_KEY = "dev.toolhall/deprecated"


class Loss(msgspec.Struct, frozen=True):
    """A member of the source document that the target dialect cannot say."""

    path: str
    reason: str


class WriteResult(msgspec.Struct, frozen=True):
    """Documents in the target dialect, and what they cannot say of the source."""

    documents: list[JsonObject]
    losses: list[Loss]


class Catalog(Protocol):
    """A dialect's tool definitions, as pure functions; a module is one."""

    name: str
    grouped: bool  # a document holds all tools of a toolkit
    # The open place where a carrier may lie, as a path of keys.
    loss_record_path: tuple[str, ...]

    def tools_path(self, document: JsonObject) -> tuple[str, ...]:
        """Where a document lists its tools, as a path of keys; empty where it is one tool itself."""
        ...

    def read(self, document: Json) -> tuple[Tool, ...]:
        """The tools in a document; BadDocument with every finding."""
        ...

    def write(self, tools: tuple[Tool, ...]) -> JsonObject:
        """One document: all tools of a toolkit where the dialect lists them, else exactly one."""
        ...


class WriteOnlyCatalog(Protocol):
    """A dialect that is only written; a module is one."""

    @property
    def name(self) -> str:
        """The dialect's name."""
        ...

    @property
    def grouped(self) -> bool:
        """Whether a document holds all tools there are."""
        ...

    def write(self, tools: tuple[Tool, ...]) -> WriteResult:
        """The documents; paths of losses start with the tool's number where there are several."""
        ...
