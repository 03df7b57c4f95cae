"""A data folder with many registered tools, all of them active, as after years of use."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from toolhall.registration.records import DefinitionDocument, RegistrationSource, records_for_document
from toolhall.stores.sqlite import open_sqlite
from toolhall.stores.tools import ToolEvent

TOGETHER = 100  # tools in one toolkit
_TEXT = {"type": "string", "description": "What to look for, as plain words."}
_COUNT = {"type": "integer", "minimum": 1, "maximum": 100, "default": 10, "description": "How many at most."}


def fill(folder: Path, tools: int) -> None:
    """Register so many tools, in documents of a hundred."""
    asyncio.run(_fill(folder, tools))


async def _fill(folder: Path, tools: int) -> None:
    stores = open_sqlite(folder)
    try:
        for first in range(0, tools, TOGETHER):
            paper = DefinitionDocument(_document(first // TOGETHER, min(TOGETHER, tools - first)), "hub")
            papers = records_for_document(paper, paper.tools, RegistrationSource("http", "bench", 1.0))
            active = [msgspec.structs.replace(kept, state="active") for kept in papers]
            await stores.tools.save(
                active, [ToolEvent(at=1.0, by="bench", id=kept.id, what="activated") for kept in active]
            )
    finally:
        stores.close()


def _document(number: int, tools: int) -> dict[str, Any]:
    params = {"type": "object", "properties": {"query": _TEXT, "limit": _COUNT}, "required": ["query"]}
    methods = [
        {"name": f"search{each}", "description": f"Search shelf {each} of library {number}.", "params": params}
        for each in range(tools)
    ]
    return {"name": f"library{number}", "version": "1.0.0", "capabilities": {"methods": methods}}
