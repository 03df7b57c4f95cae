"""A real hall in the server profile: keys, grants and the ladder as they are, one tool at each level."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.harness.asgi_client import post_json
from tests.harness.http_client import Response
from toolhall import Config, Toolhall, Toolkit, tool
from toolhall.model.call_records import AuditRecord
from toolhall.model.json import Json
from toolhall.registration.access import NewCondition, NewGrant, NewKey
from toolhall.stores.audit.journal import MemoryJournal

# By name, what is special about each caller's key.
KEYS: dict[str, dict[str, Any]] = {
    "ada": {},
    "bob": {"scopes": ("tools:Ladder",)},
    "crew": {"shared": True},
    "old": {"expires": "never"},
    "eve": {"scopes": ("tools:Other",)},
    "ops": {"scopes": ("admin",)},
}


def _step(number: int) -> Callable[..., Any]:
    async def step(self: "Ladder", colour: str = "red") -> dict[str, str]:
        self.entered.append((number, colour))
        return {"colour": colour}

    step.__name__ = step.__qualname__ = f"step{number}"
    return tool(level=number, effect="reads")(step)


class Ladder(Toolkit, name="Ladder", version="1.0.0"):
    """One tool at each level."""

    def __init__(self) -> None:
        self.entered: list[tuple[int, str]] = []

    step0, step1, step2, step3, step4 = map(_step, range(5))
    step5, step6, step7, step8, step9, step10 = map(_step, range(5, 11))


class Rule(NamedTuple):
    """A grant, as a test writes it: `colour` is what the argument must be, None for any."""

    callers: str
    tools: str
    forbids: bool = False
    colour: str | None = None


class Town:
    """One hall for the same call in every dialect."""

    def __init__(self, config: Config | None = None, ladder: Any = None) -> None:
        self.ladder = ladder or Ladder()
        self.hall = Toolhall(self.ladder, config=config or Config(profile="server", public_url="http://localhost:8000"))
        self._keys: dict[str, str] = {}

    async def open(self, rules: list[Rule]) -> dict[str, Rule]:
        """Make the keys and grants; which rule became which grant."""
        await self.hall.open()
        for name, special in KEYS.items():
            _, self._keys[name] = await self.hall.access.keys.create(NewKey(name=name, **special), "test")
        made: dict[str, Rule] = {}
        for rule in rules:
            conditions = () if rule.colour is None else (NewCondition(path="/colour", equals=rule.colour),)
            effect = "forbid" if rule.forbids else "permit"
            wanted = NewGrant(callers=rule.callers, tools=rule.tools, effect=effect, conditions=conditions)  # type: ignore[arg-type]
            made[(await self.hall.access.grants.add(wanted, "test")).id] = rule
        return made

    async def post(self, path: str, body: bytes, caller: str | None, headers: dict[str, str]) -> Response:
        """One POST with the caller's key."""
        return await post_json(self.hall.http, path, body, self.credential(caller) | headers)

    def credential(self, caller: str | None) -> dict[str, str]:
        """The header that proves a caller."""
        return {"authorization": f"Bearer {self._keys[caller]}"} if caller else {}

    def take(self) -> tuple[list[AuditRecord], list[tuple[int, str]]]:
        """The records and effects since the last time."""
        assert isinstance(self.hall.journal, MemoryJournal)
        records, entered = list(self.hall.journal.records), list(self.ladder.entered)
        self.hall.journal.records.clear()
        self.ladder.entered.clear()
        return records, entered


def arguments_of(colour: str | None) -> dict[str, Json]:
    """What is sent; None: nothing, so that the default counts."""
    return {} if colour is None else {"colour": colour}
