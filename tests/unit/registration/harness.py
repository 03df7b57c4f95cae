"""A service with its registry and its store, and definitions to bring to it."""

import json
from itertools import count
from pathlib import Path
from typing import Any

from tests.unit.builders import FixedResultRunner, tool_named
from toolhall.model.names import ToolId
from toolhall.model.tool import Tool
from toolhall.registration.records import DefinitionDocument, RegistrationSource
from toolhall.registration.service import RegistrationService
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Entry, compile_entry
from toolhall.stores.tools import MemoryToolStore, ToolRecord, ToolStore

CALCULATOR: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors/machine/calculator.json").read_text())
FROM_HTTP = RegistrationSource("http", "ada", 1.0)
ADD = "calculator.add@1.0.0"
SUBTRACT = "calculator.subtract@1.0.0"
ABOUT_NOW = 1_800_000_000.0  # 2027-01-15, 08:00


class RegistrationHarness:
    """Its clock moves on by a second whenever it is read, and stands where a test puts it."""

    def __init__(self, store: ToolStore | None = None) -> None:
        self.now = ABOUT_NOW
        self._ticks = count()
        self.registry = Registry()
        self.store: ToolStore = store or MemoryToolStore()
        self.service = RegistrationService(self.registry, self._clock, lambda _: FixedResultRunner())
        self.heard: list[list[str]] = []
        self.registry.subscribe(lambda: self.heard.append(self.served))

    async def open(self, *, hold: bool = True, files: tuple[DefinitionDocument, ...] = ()) -> "RegistrationHarness":
        await self.service.open(self.store, enforce_versions=hold, files=files)
        return self

    async def again(self, *own: Tool, files: tuple[DefinitionDocument, ...] = ()) -> "RegistrationHarness":
        """After a restart, with this code and these files."""
        harness = RegistrationHarness(self.store)
        harness.bring(*own)
        return await harness.open(files=files)

    def bring(self, *own: Tool, drafts: tuple[str, ...] = ()) -> None:
        self.service.add_code_tools([entry_of(tool) for tool in own], drafts)

    async def register(self, document: Any = CALCULATOR, dialect: str = "machine") -> tuple[ToolRecord, ...]:
        return await self.service.register(document, dialect, FROM_HTTP)

    async def activate(self, tool_id: str) -> ToolRecord:
        """As somebody who has looked at it."""
        return await self.service.activate(tool_id, "eve", self.service.find(tool_id).document_digest)

    async def told(self, tool_id: str) -> list[tuple[str, str]]:
        return [(event.what, event.by) for event in await self.service.history(tool_id)]

    @property
    def served(self) -> list[str]:
        return [entry.id for entry in self.registry.snapshot.entries]

    def state(self, name: str) -> str | None:
        """Why a tool is not served."""
        found = self.registry.inactive.find(name)
        return found.state if found else None

    def _clock(self) -> float:
        return self.now + next(self._ticks)


def entry_of(tool: Tool) -> Entry:
    return compile_entry(tool, FixedResultRunner())


def calculator(version: str, **changed: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(CALCULATOR)), "version": version, **changed}


def own(version: str, description: str = "Adds.", name: str = "add", **changed: Any) -> Tool:
    return tool_named(f"Kit_{name}", id=ToolId("Kit", name, version), description=description, **changed)


def mcp(name: str, tool_id: str | None = None, description: str = "Looks.") -> dict[str, Any]:
    """A definition; with an id, it states that this name goes with it."""
    stated = {} if tool_id is None else {"_meta": {"dev.toolhall/id": tool_id, "dev.toolhall/name": name}}
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **stated}
