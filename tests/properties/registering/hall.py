"""A registrar that is restarted again and again over one store, and what it says, in the oracle's words."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from itertools import count
from pathlib import Path

from tests.properties.registering.documents import Draft, Recipe, code
from tests.unit.builders import FixedResultRunner
from toolhall.model.errors import Malformed, NotFound
from toolhall.registration.records import DefinitionDocument, RegistrationSource
from toolhall.registration.service import RegistrationService
from toolhall.registry.registry import Conflict, Registry
from toolhall.registry.snapshot import compile_entry
from toolhall.stores.bundle import Stores
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.sqlite import open_sqlite
from toolhall.stores.tools import NEW, ToolRecord

WRONG = "sha256-" + "0" * 64
# By what a refusal says.
_WORDS = {
    "[name/confusable]": "name/confusable",
    "[contract/changed]": "other content",
    "[contract/bump]": "small rise",
    "is registered already": "taken",
    "from code": "code",
    "look at its text": "unseen",
    "there is nothing to": "already",
    "cannot come after itself": "itself",
    "there is no version of": "nothing before",
    "cannot tell apart": "twin",
}


class RestartableRegistrar:
    """A store that persists, and a registration service over it that can be restarted."""

    def __init__(self, open_again: Callable[[], Stores]) -> None:
        self._open_again = open_again
        self.today = date(2027, 1, 15)
        self._ticks = count()
        self.notified = 0
        self._begin()

    def _begin(self) -> None:
        self.registry = Registry()
        self.registrar = RegistrationService(self.registry, self.clock, lambda _: FixedResultRunner())
        self._stores = self._open_again()
        self.store = self._stores.tools

    def clock(self) -> float:
        """Moves on by a little whenever it is read."""
        return datetime.combine(self.today, datetime.min.time(), UTC).timestamp() + next(self._ticks) / 1_000

    async def restart(self, own: Mapping[str, Recipe], files: Sequence[Draft]) -> None:
        """As after a stop: nothing is left but the store."""
        self.registrar.close()
        self._stores.close()
        self._begin()
        self.registrar.add_code_tools(
            [compile_entry(code(each, recipe), FixedResultRunner()) for each, recipe in own.items()]
        )
        papers = [DefinitionDocument(draft.document, draft.dialect, f"{draft.toolkit}.json") for draft in files]
        await self.registrar.open(self.store, enforce_versions=True, files=papers)
        self.registrar.watch()
        self.registry.subscribe(self._on_change)

    async def register(self, draft: Draft) -> list[str]:
        source = RegistrationSource("http", "ada", self.clock())
        return [kept.id for kept in await self.registrar.register(draft.document, draft.dialect, source)]

    async def activate(self, name: str, *, right: bool) -> ToolRecord:
        """By somebody who looked at it, or says so."""
        seen = self.registrar.find(name).document_digest if right else WRONG
        return await self.registrar.activate(name, "eve", seen)

    async def add_code_tool(self, tool_id: str, recipe: Recipe) -> None:
        self.registrar.add_code_tools([compile_entry(code(tool_id, recipe), FixedResultRunner())])
        await asyncio.sleep(0)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})  # until it is remembered

    async def pass_days(self, to: date) -> None:
        self.today = to
        self.registrar.watch()

    @property
    def listed(self) -> dict[str, object]:
        """What people see in lists."""
        return {entry.tool.name: entry.tool for entry in self.registry.snapshot.listed}

    @property
    def written(self) -> list[ToolRecord]:
        """What the registrar takes for stored."""
        return sorted((kept for kept in self.registrar.all_records if kept.serial != NEW), key=lambda kept: kept.id)

    def close(self) -> None:
        self.registrar.close()
        self._stores.close()

    def _on_change(self) -> None:
        self.notified += 1


async def outcome(work: Awaitable[object]) -> str | None:
    """Why something was refused, in the oracle's words; None if it was done."""
    try:
        await work
    except NotFound:
        return "unknown"
    except (Malformed, Conflict) as refused:
        text = str(refused)
        return next((word for said, word in _WORDS.items() if said in text), text)
    return None


@cache
def empty_file() -> bytes:
    """A database that nobody has used, so that not every example makes its tables."""
    with tempfile.TemporaryDirectory() as folder:
        open_sqlite(Path(folder)).close()
        return (Path(folder) / DATABASE_FILE).read_bytes()
