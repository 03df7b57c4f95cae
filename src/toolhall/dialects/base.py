"""Interfaces of a dialect's tool definitions: Catalog, WriteOnlyCatalog, and Loss, what a dialect cannot express."""

from typing import Protocol

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool

# Member that announces a deprecation; only OpenAPI has a keyword of its own for it.
DEPRECATED_KEY = "dev.toolhall/deprecated"


class Loss(msgspec.Struct, frozen=True):
    """A member of the source document that the target dialect cannot express."""

    path: str
    reason: str


class WriteResult(msgspec.Struct, frozen=True):
    """Documents in the target dialect, and every loss."""

    documents: list[JsonObject]
    losses: list[Loss]


class Catalog(Protocol):
    """Reads and writes the tool definitions of one dialect with pure functions; a module can implement it."""

    name: str
    grouped: bool  # one document holds all tools of a toolkit
    loss_record_path: tuple[str, ...]  # keys from the root to the member that may hold a LossRecord

    def tools_path(self, document: JsonObject) -> tuple[str, ...]:
        """Keys from the root to the list of tools; empty where the document itself is one tool."""
        ...

    def read(self, document: Json) -> tuple[Tool, ...]:
        """Parse the tools in a document; raises BadDocument with every finding."""
        ...

    def write(self, tools: tuple[Tool, ...]) -> JsonObject:
        """Write one document: all tools of a toolkit if the dialect is grouped, else exactly one tool."""
        ...


class WriteOnlyCatalog(Protocol):
    """Writes the tool definitions of a dialect that is never read; a module can implement it."""

    @property
    def name(self) -> str:
        """The dialect's name."""
        ...

    @property
    def grouped(self) -> bool:
        """True if one document holds all tools."""
        ...

    def write(self, tools: tuple[Tool, ...]) -> WriteResult:
        """Write the documents; loss paths start with the tool's index if there is more than one tool."""
        ...
