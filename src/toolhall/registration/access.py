"""AccessControl: creates and revokes ApiKeys, adds and removes Grants, and reloads both on change.

Each change is stored first and takes effect at once, in this process immediately and in others with their next poll.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.model.caller import (
    ACT_AS,
    ADMIN,
    ALL_TOOLS,
    ANONYMOUS,
    APPROVE,
    LOCAL,
    OBSERVE,
    SERVE_ALL,
    TRUSTED_SERVER,
    Caller,
)
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import Json
from toolhall.model.names import matches_any
from toolhall.stores.access import (
    ApiKey,
    ApiKeyStore,
    Condition,
    Grant,
    GrantEffect,
    GrantStore,
    KeyRing,
    MemoryApiKeyStore,
    MemoryGrantStore,
    format_token,
    generate_key_id,
    generate_token,
    with_last_use,
)
from toolhall.stores.common import StoreFailed, StorePoller, WriteLock

if TYPE_CHECKING:
    from toolhall.stores.bundle import Stores

MAX_KEYS = 10_000
MAX_SCOPES = 64
DEFAULT_EXPIRY = "90d"
NEVER = "never"
# The patterns are texts, which `re` compiles when they are first used.
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_OWNER = r"[\x21-\x7e]{1,256}"
_RESERVED = {LOCAL.id, ANONYMOUS.id}
_SCOPE = rf"{ADMIN}|{OBSERVE}|{APPROVE}|{ACT_AS}|{TRUSTED_SERVER}|(?:tools|serve):(?:\*|[A-Za-z0-9_-]{{1,64}})"
MAX_GRANTS = 10_000
MAX_CONDITIONS = 32
MAX_CONDITION_VALUES = 64  # of one condition
MAX_PATH_LENGTH = 256
MAX_CONDITIONS_BYTES = 16_384  # of all conditions of a grant
_MAX_NUMBER = 10**15
_GLOB = r"[\x21-\x7e]{1,256}"
_UNBALANCED_BRACKET = r"\[(?![!^]?[^\]]+\])"
_POINTER = r"(?:/(?:[^~/]|~[01])*){1,32}"
GrantsListener: TypeAlias = Callable[[tuple[Grant, ...]], None]
_EXPIRY = r"([1-9][0-9]{0,3})([dh])"
_SECONDS = {"d": 86_400.0, "h": 3_600.0}
_log = logging.getLogger("toolhall.keys")


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a new key; `expires` is a time from now such as 90d or 12h, or never."""

    name: str
    owner: str | None = None
    shared: bool = False
    scopes: Sequence[str] = (ALL_TOOLS,)
    expires: str = DEFAULT_EXPIRY


class NewCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A condition on one argument: its value, or one of its values."""

    path: str
    equals: Json | msgspec.UnsetType = msgspec.UNSET
    one_of: list[Json] | msgspec.UnsetType = msgspec.UNSET


class NewGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a new grant."""

    callers: str
    tools: str
    effect: GrantEffect = "permit"
    conditions: Sequence[NewCondition] = ()


class AccessControl:
    """The API keys and grants of a hall; `on_grants_changed` gets the grants whenever they change."""

    def __init__(
        self, root_key: bytes, write_lock: WriteLock, clock: Callable[[], float], on_grants_changed: GrantsListener
    ) -> None:
        self.write_lock = write_lock
        self._poller = StorePoller(self._reload)
        self.ring = KeyRing(root_key, clock)
        self.keys = ApiKeys(self.ring, write_lock, clock)
        self.grants = Grants(on_grants_changed, write_lock, clock)
        self.reload_hooks: list[
            Callable[[], Awaitable[None]]
        ] = []  # awaited after other processes have changed the store

    async def open(self, stores: "Stores") -> None:
        """Load keys and grants; raises StoreFailed."""
        await self._poller.set_baseline(stores.version)  # before anything is read, so that a later change is noticed
        await self.keys.open(stores)
        await self.grants.open(stores)

    def watch(self) -> None:
        """Poll for changes of other processes, in the running loop."""
        self._poller.start()

    def close(self) -> None:
        """Stop polling; the stores are closed by their owner."""
        self._poller.stop()

    async def _reload(self) -> None:
        """Reload; keys first, so that a revocation takes effect even if the grants cannot be read."""
        await self.keys.reload()
        await self.grants.reload()
        for reload in self.reload_hooks:
            await reload()


class ApiKeys:
    """Creates and revokes API keys: the only writer of this process; a change is stored first, then takes effect."""

    def __init__(self, ring: KeyRing, write_lock: WriteLock, clock: Callable[[], float]) -> None:
        self._ring = ring
        self._write_lock = write_lock
        self._clock = clock
        self._store: ApiKeyStore = MemoryApiKeyStore()
        self._keys: dict[str, ApiKey] = {}
        self._usage_writes = BackgroundTasks()
        self.on_change: list[Callable[[], None]] = []  # called after keys were created or revoked

    async def open(self, stores: "Stores") -> None:
        """Load the keys; raises StoreFailed."""
        self._store = stores.keys
        self._keys = {key.id: key for key in await stores.keys.all()}
        self._ring.load(self._keys.values())
        if not stores.readonly:
            self._ring.flush_uses = self._schedule_usage_write

    @property
    def all(self) -> tuple[ApiKey, ...]:
        """Every key, also revoked and expired ones, oldest first."""
        used = self._ring.pending_uses
        return tuple(with_last_use(key, used[key.id]) if key.id in used else key for key in self._keys.values())

    def current(self, caller: Caller) -> Caller | None:
        """Return a caller of earlier with what its API key may do now; None if the key is not valid any more.

        Other proofs than keys are not known here, and stay as they were.
        """
        if caller.proof not in ("key", "shared") or caller.id.startswith("oxp:"):
            return caller
        now = self._ring.caller_named(caller.id, self._clock())
        return None if now is None else msgspec.structs.replace(now, acting_for=caller.acting_for)

    async def create(self, request: NewKey, by: str) -> tuple[ApiKey, str]:
        """Create a key; returns it and its token, which is stored nowhere. Raises Malformed."""
        key = generate_token()
        now = self._clock()
        made = ApiKey(
            id=key.id,
            name=_checked_name(request.name),
            owner=_checked_owner(request.owner),
            shared=request.shared,
            scopes=_checked_scopes(request.scopes),
            digest=self._ring.digest_of(key),
            created_at=now,
            expires_at=_parse_expiry(request.expires, now),
            by=by,
        )
        await self._write_lock.exclusive(self._add(made))
        return made, format_token(key)

    async def revoke(self, key_id: str) -> ApiKey:
        """Revoke a key at once; raises NotFound."""
        return await self._write_lock.exclusive(self._revoke(key_id))

    async def reload(self) -> None:
        """Load what other processes have changed."""
        await self._write_lock.exclusive(self._reload())

    async def _reload(self) -> None:
        found = {key.id: key for key in await self._store.all()}
        known, self._keys = self._keys, found
        if _without_usage(found) != _without_usage(known):  # a use in another process alone does not count
            self._publish()

    async def _add(self, key: ApiKey) -> None:
        if len(self._keys) >= MAX_KEYS:
            raise Malformed(f"{MAX_KEYS} keys are kept at most, and there are so many")
        await self._store.add(key)
        self._put(key)

    async def _revoke(self, key_id: str) -> ApiKey:
        if key_id not in self._keys:  # another process may just have made it
            await self._reload()
        found = await self._store.revoke(key_id, self._clock()) if key_id in self._keys else None
        if found is None:
            raise NotFound("there is no key of this id; 'toolhall key list' shows what there is")
        self._put(found)
        return found

    def _put(self, key: ApiKey) -> None:
        self._keys[key.id] = key
        self._publish()

    def _publish(self) -> None:
        self._ring.load(self._keys.values())
        for callback in self.on_change:
            callback()

    def _schedule_usage_write(self) -> None:
        """Store the times of use in the background; no call waits for it."""
        self._usage_writes.start(self._write_usage())

    async def _write_usage(self) -> None:
        used = self._ring.drain_uses()
        self._keys |= {
            key_id: with_last_use(self._keys[key_id], used[key_id]) for key_id in used.keys() & self._keys.keys()
        }
        try:
            await self._store.record_uses(used)
        except StoreFailed as failed:
            _log.warning("the times when keys were used could not be stored: %s", failed)


class Grants:
    """Adds and removes grants: the only writer of this process; a change is stored first, then takes effect."""

    def __init__(self, on_change: GrantsListener, write_lock: WriteLock, clock: Callable[[], float]) -> None:
        self._on_change = on_change
        self._write_lock = write_lock
        self._clock = clock
        self._store: GrantStore = MemoryGrantStore()
        self.all: tuple[Grant, ...] = ()  # oldest first

    async def open(self, stores: "Stores") -> None:
        """Load the grants; raises StoreFailed, also if a forbidding grant was tampered with."""
        self._store = stores.grants
        self._replace(await stores.grants.all())

    async def add(self, request: NewGrant, by: str) -> Grant:
        """Add a grant; raises Malformed."""
        grant = self.draft(request, by, f"g_{generate_key_id()}")
        await self._write_lock.exclusive(self._add(grant))
        return grant

    def draft(self, request: NewGrant, by: str, grant_id: str) -> Grant:
        """Return the grant that a request asks for, without adding it; raises Malformed."""
        return Grant(
            id=grant_id,
            effect=request.effect,
            callers=_checked_callers(request.callers),
            tools=_checked_glob(request.tools, "tools", "Calendar.* or Weather.Get@1.0.0"),
            conditions=_checked_conditions(request.conditions),
            created_at=self._clock(),
            by=by,
        )

    async def remove(self, grant_id: str) -> Grant:
        """Remove a grant; raises NotFound."""
        return await self._write_lock.exclusive(self._remove(grant_id))

    async def reload(self) -> None:
        """Load what other processes have changed."""
        await self._write_lock.exclusive(self._reload())

    async def _reload(self) -> None:
        found = await self._store.all()
        if found != self.all:
            self._replace(found)

    async def _add(self, grant: Grant) -> None:
        if len(self.all) >= MAX_GRANTS:
            raise Malformed(f"{MAX_GRANTS} grants are kept at most; remove some first")
        await self._store.add(grant)
        self._replace((*self.all, grant))

    async def _remove(self, grant_id: str) -> Grant:
        known = self._find(grant_id)
        if known is None:  # another process may just have made it
            await self._reload()
            known = self._find(grant_id)
        if known is None:
            raise NotFound("there is no grant of this id; 'toolhall grant list' shows what there is")
        await self._store.remove(grant_id)
        self._replace(tuple(each for each in self.all if each.id != grant_id))
        return known

    def _find(self, grant_id: str) -> Grant | None:
        return next((each for each in self.all if each.id == grant_id), None)

    def _replace(self, grants: tuple[Grant, ...]) -> None:
        self.all = grants
        self._on_change(grants)


def _without_usage(keys: dict[str, ApiKey]) -> list[ApiKey]:
    return [msgspec.structs.replace(key, last_used_at=None) for key in keys.values()]


def _checked_name(name: str) -> str:
    if name.lower() in _RESERVED:
        raise Malformed(f"{name!r} is the name of callers without a key; choose another")
    if not re.fullmatch(_NAME, name):
        raise Malformed("a key's name has 1 to 64 letters, digits, dots, dashes and underscores, such as ci or ada.bot")
    return name


def _checked_owner(owner: str | None) -> str | None:
    if owner is not None and not re.fullmatch(_OWNER, owner):
        raise Malformed("an owner is the name of a person in 1 to 256 visible ASCII characters without spaces")
    return owner


def _checked_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    wrong = next((scope for scope in scopes if not re.fullmatch(_SCOPE, scope)), None)
    if wrong is not None:
        raise Malformed(
            f"there is no scope {wrong[:80]!r}; use tools:* or tools:TOOLKIT, {ADMIN}, {OBSERVE}, {APPROVE}, {ACT_AS}, "
            f"{SERVE_ALL} or serve:TOOLKIT, {TRUSTED_SERVER}"
        )
    if len(scopes) > MAX_SCOPES:
        raise Malformed(f"a key has {MAX_SCOPES} scopes at most; use tools:*")
    return tuple(sorted(set(scopes)))


def _parse_expiry(expires: str, now: float) -> float | None:
    if expires == NEVER:
        return None
    form = re.fullmatch(_EXPIRY, expires)
    if form is None:
        raise Malformed(f"expires is a time from now such as {DEFAULT_EXPIRY} or 12h, up to 9999d, or {NEVER}")
    return now + int(form[1]) * _SECONDS[form[2]]


def grant_warnings(grant: Grant, others: Iterable[Grant], callers: Iterable[str], tools: Iterable[str]) -> list[str]:
    """Return warnings about a valid grant that is probably a mistake: unknown names, conditions without effect.

    `callers` and `tools` are those that are known here. Callers with tokens of an issuer (their id contains a colon)
    cannot be known in advance.
    """
    warnings: list[str] = []
    if ":" not in grant.callers and not any(fnmatchcase(each, grant.callers) for each in callers):
        warnings.append(
            f"no key belongs to a caller {grant.callers!r}; make one with 'toolhall key create', or check the name"
        )
    known = tuple(tools)
    if known and not any(matches_any((grant.tools,), each) for each in known):
        warnings.append(f"no tool that is known here matches {grant.tools!r}; check it against 'toolhall tool list'")
    for other in others:
        if other.id == grant.id or (other.effect, grant.effect) != ("permit", "permit"):
            continue
        if grant.conditions and not other.conditions and _covers(other, grant):
            warnings.append(f"its conditions change nothing: {other.id} permits the same without any")
        if other.conditions and not grant.conditions and _covers(grant, other):
            warnings.append(
                f"the conditions of {other.id} change nothing from now on: this permits the same without any"
            )
    return warnings


def _covers(wide: Grant, narrow: Grant) -> bool:
    """Return whether one grant matches every caller and tool of another; patterns are compared as plain text."""
    return fnmatchcase(narrow.callers, wide.callers) and matches_any((wide.tools,), narrow.tools)


def _checked_callers(text: str) -> str:
    if text == LOCAL.id:
        raise Malformed(
            f"{LOCAL.id} is the person at this machine, who may call every tool; a grant can neither add to that nor"
            " forbid it. Name other callers, or serve with --profile server, where everybody needs a key"
        )
    return _checked_glob(text, "callers", "ci or ada.*")


def _checked_glob(text: str, what: str, example: str) -> str:
    if not re.fullmatch(_GLOB, text):
        raise Malformed(f"{what} are 1 to 256 visible ASCII characters without spaces, such as {example}")
    if re.search(_UNBALANCED_BRACKET, text):  # fnmatch would take it as a plain bracket, which no name has
        raise Malformed(f"{what}: unbalanced '[' in {text}; such as {example}")
    return text


def _checked_conditions(requested: Sequence[NewCondition]) -> tuple[Condition, ...]:
    if len(requested) > MAX_CONDITIONS:
        raise Malformed(f"a grant has {MAX_CONDITIONS} conditions at most")
    made = tuple(map(_checked_condition, requested))
    try:
        size = len(msgspec.json.encode(made))
    except UnicodeEncodeError:
        raise Malformed("a condition holds a text that is no Unicode") from None
    if size > MAX_CONDITIONS_BYTES:
        raise Malformed(f"the conditions of a grant have {MAX_CONDITIONS_BYTES} bytes at most")
    return made


def _checked_condition(requested: NewCondition) -> Condition:
    if not re.fullmatch(_POINTER, requested.path) or "\x00" in requested.path or len(requested.path) > MAX_PATH_LENGTH:
        raise Malformed(
            f"{requested.path[:80]!r} is no place among the arguments; write it like /repo or /filter/owner"
        )
    if (requested.equals is msgspec.UNSET) is (requested.one_of is msgspec.UNSET):
        raise Malformed(f"the condition on {requested.path[:80]} needs either equals or oneOf")
    values = (requested.equals,) if isinstance(requested.one_of, msgspec.UnsetType) else tuple(requested.one_of)
    if not 1 <= len(values) <= MAX_CONDITION_VALUES:
        raise Malformed(
            f"the condition on {requested.path[:80]} needs 1 to {MAX_CONDITION_VALUES} values; else it could not hold"
        )
    if not all(map(_is_portable, values)):
        raise Malformed(f"the condition on {requested.path[:80]} holds U+0000, a long name or a number over 15 digits")
    return Condition(requested.path, values)


def _is_portable(value: Json) -> bool:
    """Return whether every JSON parser reads the value alike."""
    match value:
        case str():
            return "\x00" not in value
        case bool() | None:
            return True
        case int() | float():
            return -_MAX_NUMBER <= value <= _MAX_NUMBER
        case dict():
            return all(
                len(name) <= MAX_PATH_LENGTH and _is_portable(name) and _is_portable(part)
                for name, part in value.items()
            )
        case _:
            return all(map(_is_portable, value))
