"""Adds and removes grants, and tells whoever decides by them."""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

from toolhall.model.caller import LOCAL
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.globs import means
from toolhall.model.json import Json
from toolhall.registrar.turns import Turns
from toolhall.stores.bundle import Stores
from toolhall.stores.grants.base import Condition, Effect, Grant, GrantStore
from toolhall.stores.grants.memory import MemoryGrants
from toolhall.stores.keys.text import new_id

MOST_GRANTS = 10_000
MOST_CONDITIONS = 32
MOST_VALUES = 64  # of one condition
MOST_PATH = 256
MOST_BYTES = 16_384  # of all conditions of a grant
_LARGEST = 10**15
_GLOB = re.compile(r"[\x21-\x7e]{1,256}")
_OPEN_SET = re.compile(r"\[(?![!^]?[^\]]+\])")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*){1,32}")

Changed: TypeAlias = Callable[[tuple[Grant, ...]], None]


class NewCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What an argument must be: this value, or one of these."""

    path: str
    equals: Json | msgspec.UnsetType = msgspec.UNSET
    one_of: list[Json] | msgspec.UnsetType = msgspec.UNSET


class NewGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for."""

    callers: str
    tools: str
    effect: Effect = "permit"
    conditions: Sequence[NewCondition] = ()


class Grants:
    """The only writer of a process to the store of grants; a change is remembered first, then it counts at once."""

    def __init__(self, changed: Changed, turns: Turns, clock: Callable[[], float]) -> None:
        self._changed = changed
        self._turns = turns
        self._clock = clock
        self._store: GrantStore = MemoryGrants()
        self.all: tuple[Grant, ...] = ()  # what was made first first

    async def open(self, stores: Stores) -> None:
        """Bring back what there is; raises StoreFailed, also where one that forbids was tampered with."""
        self._store = stores.grants
        self._take(await stores.grants.all())

    async def add(self, wanted: NewGrant, by: str) -> Grant:
        """A new grant; Malformed says what is wrong with what is wanted."""
        grant = Grant(
            id=f"g_{new_id()}",
            effect=wanted.effect,
            callers=_callers(wanted.callers),
            tools=_glob(wanted.tools, "tools", "Calendar.* or Weather.Get@1.0.0"),
            conditions=_conditions(wanted.conditions),
            created_at=self._clock(),
            by=by,
        )
        await self._turns.alone(self._add(grant))
        return grant

    async def remove(self, grant_id: str) -> Grant:
        """Forget it; NotFound if there is none."""
        return await self._turns.alone(self._remove(grant_id))

    async def follow(self) -> None:
        """Take over what other processes changed."""
        await self._turns.alone(self._read_again())

    async def _read_again(self) -> None:
        found = await self._store.all()
        if found != self.all:
            self._take(found)

    async def _add(self, grant: Grant) -> None:
        if len(self.all) >= MOST_GRANTS:
            raise Malformed(f"{MOST_GRANTS} grants are kept at most; remove some first")
        await self._store.add(grant)
        self._take((*self.all, grant))

    async def _remove(self, grant_id: str) -> Grant:
        known = self._find(grant_id)
        if known is None:  # another process may just have made it
            await self._read_again()
            known = self._find(grant_id)
        if known is None:
            raise NotFound("there is no grant of this id; 'toolhall grant list' shows what there is")
        await self._store.remove(grant_id)
        self._take(tuple(each for each in self.all if each.id != grant_id))
        return known

    def _find(self, grant_id: str) -> Grant | None:
        return next((each for each in self.all if each.id == grant_id), None)

    def _take(self, grants: tuple[Grant, ...]) -> None:
        self.all = grants
        self._changed(grants)


def warnings_about(grant: Grant, others: Iterable[Grant], callers: Iterable[str], tools: Iterable[str]) -> list[str]:
    """What is probably not meant by a grant that is otherwise sound: names that nobody has, and idle conditions.

    `callers` and `tools` are what is known here. A caller with a token of an issuer (its id holds a colon) is known by
    nobody in advance.
    """
    said: list[str] = []
    if ":" not in grant.callers and not any(fnmatchcase(each, grant.callers) for each in callers):
        said.append(
            f"no key belongs to a caller {grant.callers!r}; make one with 'toolhall key create', or check the name"
        )
    known = tuple(tools)
    if known and not any(means((grant.tools,), each) for each in known):
        said.append(f"no tool that is known here matches {grant.tools!r}; check it against 'toolhall tool list'")
    for other in others:
        if other.id == grant.id or (other.effect, grant.effect) != ("permit", "permit"):
            continue
        if grant.conditions and not other.conditions and _covers(other, grant):
            said.append(f"its conditions change nothing: {other.id} permits the same without any")
        if other.conditions and not grant.conditions and _covers(grant, other):
            said.append(f"the conditions of {other.id} change nothing from now on: this permits the same without any")
    return said


def _covers(wide: Grant, narrow: Grant) -> bool:
    """Whether one grant is about every caller and tool of another; a pattern counts as the text that it is."""
    return fnmatchcase(narrow.callers, wide.callers) and means((wide.tools,), narrow.tools)


def _callers(text: str) -> str:
    if text == LOCAL.id:
        raise Malformed(
            f"{LOCAL.id} is the person at this machine, who may call every tool; a grant can neither add to that nor"
            " forbid it. Name other callers, or serve with --profile server, where everybody needs a key"
        )
    return _glob(text, "callers", "ci or ada.*")


def _glob(text: str, what: str, such_as: str) -> str:
    if not _GLOB.fullmatch(text):
        raise Malformed(f"{what} are 1 to 256 visible ASCII characters without spaces, such as {such_as}")
    if _OPEN_SET.search(text):  # it would mean the bracket itself, which no name has
        raise Malformed(f"{what}: a [ has no ] in {text}; such as {such_as}")
    return text


def _conditions(wanted: Sequence[NewCondition]) -> tuple[Condition, ...]:
    if len(wanted) > MOST_CONDITIONS:
        raise Malformed(f"a grant has {MOST_CONDITIONS} conditions at most")
    made = tuple(map(_condition, wanted))
    try:
        size = len(msgspec.json.encode(made))
    except UnicodeEncodeError:
        raise Malformed("a condition holds a text that is no Unicode") from None
    if size > MOST_BYTES:
        raise Malformed(f"the conditions of a grant have {MOST_BYTES} bytes at most")
    return made


def _condition(wanted: NewCondition) -> Condition:
    if not _POINTER.fullmatch(wanted.path) or "\x00" in wanted.path or len(wanted.path) > MOST_PATH:
        raise Malformed(f"{wanted.path[:80]!r} is no place among the arguments; write it like /repo or /filter/owner")
    if (wanted.equals is msgspec.UNSET) is (wanted.one_of is msgspec.UNSET):
        raise Malformed(f"the condition on {wanted.path[:80]} needs either equals or oneOf")
    values = (wanted.equals,) if isinstance(wanted.one_of, msgspec.UnsetType) else tuple(wanted.one_of)
    if not 1 <= len(values) <= MOST_VALUES:
        raise Malformed(f"the condition on {wanted.path[:80]} needs 1 to {MOST_VALUES} values; else it could not hold")
    if not all(map(_is_plain, values)):
        raise Malformed(f"the condition on {wanted.path[:80]} holds U+0000, a long name or a number over 15 digits")
    return Condition(wanted.path, values)


def _is_plain(value: Json) -> bool:
    """Whether every program reads it alike."""
    match value:
        case str():
            return "\x00" not in value
        case bool() | None:
            return True
        case int() | float():
            return -_LARGEST <= value <= _LARGEST
        case dict():
            return all(len(name) <= MOST_PATH and _is_plain(name) and _is_plain(part) for name, part in value.items())
        case _:
            return all(map(_is_plain, value))
