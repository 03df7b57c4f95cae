"""Makes and revokes API keys, and keeps the ring what the store says it is."""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence

import msgspec

from toolhall.model.caller import ACT_AS, ADMIN, ALL_TOOLS, APPROVE, LOCAL, NOBODY, SERVE_ALL, TRUSTED
from toolhall.model.errors import Malformed, NotFound
from toolhall.registrar.turns import Turns
from toolhall.stores.base import StoreFailed
from toolhall.stores.bundle import Stores
from toolhall.stores.keys.base import ApiKey, KeyStore, used_at
from toolhall.stores.keys.memory import MemoryKeys
from toolhall.stores.keys.ring import KeyRing
from toolhall.stores.keys.text import new_key, written

MOST_KEYS = 10_000
MOST_SCOPES = 64
USUAL_EXPIRY = "90d"
NEVER = "never"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_OWNER = re.compile(r"[\x21-\x7e]{1,256}")
_RESERVED = {LOCAL.id, NOBODY.id}
_SCOPE = re.compile(rf"{ADMIN}|{APPROVE}|{ACT_AS}|{TRUSTED}|(?:tools|serve):(?:\*|[A-Za-z0-9_-]{{1,64}})", re.ASCII)
_EXPIRY = re.compile(r"([1-9][0-9]{0,3})([dh])", re.ASCII)
_SECONDS = {"d": 86_400.0, "h": 3_600.0}
_log = logging.getLogger("toolhall.keys")


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for; `expires` is a time from now such as 90d or 12h, or never."""

    name: str
    owner: str | None = None
    shared: bool = False
    scopes: Sequence[str] = (ALL_TOOLS,)
    expires: str = USUAL_EXPIRY


class Keys:
    """The only writer of a process to the store of keys; a change is remembered first, then it counts at once."""

    def __init__(self, ring: KeyRing, turns: Turns, clock: Callable[[], float]) -> None:
        self._ring = ring
        self._turns = turns
        self._clock = clock
        self._store: KeyStore = MemoryKeys()
        self._keys: dict[str, ApiKey] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self.changed: list[Callable[[], None]] = []  # hear at once that keys came or went

    async def open(self, stores: Stores) -> None:
        """Bring back what there is; raises StoreFailed."""
        self._store = stores.keys
        self._keys = {key.id: key for key in await stores.keys.all()}
        self._ring.load(self._keys.values())
        if not stores.readonly:
            self._ring.remember = self._remember

    @property
    def all(self) -> tuple[ApiKey, ...]:
        """Every key, also what was revoked or has expired, what was made first first."""
        used = self._ring.used
        return tuple(used_at(key, used[key.id]) if key.id in used else key for key in self._keys.values())

    async def create(self, wanted: NewKey, by: str) -> tuple[ApiKey, str]:
        """A new key and its text, which is not kept anywhere; Malformed says what is wrong with what is wanted."""
        key = new_key()
        now = self._clock()
        made = ApiKey(
            id=key.id,
            name=_name(wanted.name),
            owner=_owner(wanted.owner),
            shared=wanted.shared,
            scopes=_scopes(wanted.scopes),
            digest=self._ring.proof_of(key),
            created_at=now,
            expires_at=_expiry(wanted.expires, now),
            by=by,
        )
        await self._turns.alone(self._add(made))
        return made, written(key)

    async def revoke(self, key_id: str) -> ApiKey:
        """From now on it opens nothing; NotFound if there is none."""
        return await self._turns.alone(self._revoke(key_id))

    async def follow(self) -> None:
        """Take over what other processes changed."""
        await self._turns.alone(self._read_again())

    async def _read_again(self) -> None:
        found = {key.id: key for key in await self._store.all()}
        known, self._keys = self._keys, found
        if _apart_from_use(found) != _apart_from_use(known):  # or each use elsewhere would make this ring forget
            self._load()

    async def _add(self, key: ApiKey) -> None:
        if len(self._keys) >= MOST_KEYS:
            raise Malformed(f"{MOST_KEYS} keys are kept at most, and there are so many")
        await self._store.add(key)
        self._take(key)

    async def _revoke(self, key_id: str) -> ApiKey:
        if key_id not in self._keys:  # another process may just have made it
            await self._read_again()
        found = await self._store.revoke(key_id, self._clock()) if key_id in self._keys else None
        if found is None:
            raise NotFound("there is no key of this id; 'toolhall key list' shows what there is")
        self._take(found)
        return found

    def _take(self, key: ApiKey) -> None:
        self._keys[key.id] = key
        self._load()

    def _load(self) -> None:
        self._ring.load(self._keys.values())
        for hear in self.changed:
            hear()

    def _remember(self) -> None:
        """Write down soon when keys were used; no call waits for that."""
        task = asyncio.get_running_loop().create_task(self._write_used())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_used(self) -> None:
        used = self._ring.take_used()
        self._keys |= {key_id: used_at(self._keys[key_id], used[key_id]) for key_id in used.keys() & self._keys.keys()}
        try:
            await self._store.used(used)
        except StoreFailed as failed:
            _log.warning("when keys were used could not be written down: %s", failed)


def _apart_from_use(keys: dict[str, ApiKey]) -> list[ApiKey]:
    return [msgspec.structs.replace(key, last_used_at=None) for key in keys.values()]


def _name(name: str) -> str:
    if name.lower() in _RESERVED:
        raise Malformed(f"{name!r} is the name of callers without a key; choose another")
    if not _NAME.fullmatch(name):
        raise Malformed("a key's name has 1 to 64 letters, digits, dots, dashes and underscores, such as ci or ada.bot")
    return name


def _owner(owner: str | None) -> str | None:
    if owner is not None and not _OWNER.fullmatch(owner):
        raise Malformed("an owner is the name of a person in 1 to 256 visible ASCII characters without spaces")
    return owner


def _scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    wrong = next((scope for scope in scopes if not _SCOPE.fullmatch(scope)), None)
    if wrong is not None:
        raise Malformed(
            f"there is no scope {wrong[:80]!r}; use tools:* or tools:TOOLKIT, {ADMIN}, {APPROVE}, {ACT_AS}, "
            f"{SERVE_ALL} or serve:TOOLKIT, {TRUSTED}"
        )
    if len(scopes) > MOST_SCOPES:
        raise Malformed(f"a key has {MOST_SCOPES} scopes at most; use tools:*")
    return tuple(sorted(set(scopes)))


def _expiry(expires: str, now: float) -> float | None:
    if expires == NEVER:
        return None
    form = _EXPIRY.fullmatch(expires)
    if form is None:
        raise Malformed(f"expires is a time from now such as {USUAL_EXPIRY} or 12h, up to 9999d, or {NEVER}")
    return now + int(form[1]) * _SECONDS[form[2]]
