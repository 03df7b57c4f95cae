"""What management is about, who may look at it, and the one way to change it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from toolhall.dialects.findings import BadDocument
from toolhall.hall import Hall
from toolhall.model.caller import ADMIN, Caller
from toolhall.model.errors import Denied, Malformed
from toolhall.model.json import Json
from toolhall.model.record import Record
from toolhall.pipeline.manage import Change
from toolhall.registrar.access import Access
from toolhall.registrar.registrar import Registrar
from toolhall.stores.audit.anchors import Anchoring
from toolhall.stores.audit.reading import Found, Wanted
from toolhall.stores.base import Origin

T = TypeVar("T")
DIALECT = "api"
REFUSAL = f"this caller may not see what is registered; only the person at this machine and the scope {ADMIN} may"


class Contradiction(Malformed):
    """The request is sound, but not with what is registered now."""


class ReadableJournal(Protocol):
    """Records that can be read again; `anchoring` compares them with what the store knows, if they are in a folder."""

    @property
    def anchoring(self) -> Anchoring | None:
        """What an operator accepts."""
        ...

    async def read(self, tool: str, take: Callable[[Record], None]) -> None:
        """Hand over every record about a tool id, or about all versions of a `Toolkit.tool`."""
        ...

    async def search(self, wanted: Wanted, limit: int) -> list[Found]:
        """The newest records that fit, the newest first."""
        ...


@dataclass
class Managed:
    """One hall with what is registered in it; `origin` and `detail` say where new definitions come from."""

    hall: Hall
    registrar: Registrar
    access: Access
    journal: ReadableJournal
    clock: Callable[[], float]
    page_size: int
    origin: Origin = "http"
    detail: str = ""

    def refuse_strangers(self, caller: Caller) -> None:
        """Raise Denied for whoever may not change the hall: they see nothing of it either."""
        if not self.hall.manage.allows(caller):
            raise Denied(REFUSAL)

    async def change(self, what: str, given: Json, caller: Caller, apply: Callable[[], Awaitable[T]]) -> T:
        """Make a change, recorded however it ends; what is refused only because of the present state says so."""
        try:
            return await self.hall.manage(Change(what, DIALECT, given), caller, apply)
        except BadDocument:
            raise
        except Malformed as error:
            raise Contradiction(error.message) from None
