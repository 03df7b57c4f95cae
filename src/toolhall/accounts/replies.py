"""What a provider's endpoints answer, read with suspicion: tokens, and codes for devices."""

import math
import re
from collections.abc import Mapping

import msgspec

from toolhall.accounts.failures import Unreachable
from toolhall.accounts.providers import Provider, is_safe
from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import SHORTEST, Secret

_MOST_TOKEN = 16_384
_MOST_SECONDS = 10 * 365 * 86_400.0
_BEARER = ("bearer", "user", "bot")  # the last two are Slack's
_SEPARATORS = re.compile(r"[ ,]+")  # GitHub and Slack use commas
_USER_CODE = re.compile(r"[A-Za-z0-9 -]{4,32}")
_MOST_INTERVAL = 60.0


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that a provider gave, and the scopes that were both asked for and granted."""

    access: Secret
    refresh: Secret | None
    expires_at: float | None
    scopes: tuple[str, ...]


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    """What a person enters, and where; `device_code` is the hall's part."""

    device_code: Secret
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    interval: float
    expires_in: float


def read_tokens(reply: JsonObject, provider: Provider, asked: tuple[str, ...], now: float) -> Granted:
    """The tokens; Unreachable if this is no such answer.

    A scope that nobody asked for is not taken, whatever the provider says: no person was shown it.
    """
    kind = reply.get("token_type", "bearer")
    if not isinstance(kind, str) or kind.lower() not in _BEARER:
        raise Unreachable("the tokens are not bearer tokens")
    access = _token(reply, "access_token")
    if access is None:
        raise Unreachable("there is no access token in the answer")
    seconds = _seconds(reply, "expires_in")
    return Granted(
        access=access,
        refresh=_token(reply, "refresh_token"),
        expires_at=None if seconds is None else now + seconds,
        scopes=_granted(reply.get("scope"), provider, asked),
    )


def read_device(reply: JsonObject) -> DeviceCode:
    """The codes; Unreachable if a person should not be sent there."""
    device_code, user_code = _token(reply, "device_code"), reply.get("user_code")
    where, whole = reply.get("verification_uri", reply.get("verification_url")), reply.get("verification_uri_complete")
    if device_code is None or not isinstance(user_code, str) or not _USER_CODE.fullmatch(user_code):
        raise Unreachable("there is no device code in the answer")
    if not isinstance(where, str) or not is_safe(where):
        raise Unreachable("the verification address is not an https URL")
    return DeviceCode(
        device_code=device_code,
        user_code=user_code,
        verification_uri=where,
        verification_uri_complete=whole if isinstance(whole, str) and is_safe(whole) else None,
        interval=min(_seconds(reply, "interval") or 5.0, _MOST_INTERVAL),
        expires_in=_seconds(reply, "expires_in") or 600.0,
    )


def _granted(said: Json, provider: Provider, asked: tuple[str, ...]) -> tuple[str, ...]:
    """RFC 6749, 5.1: without a word on scopes, they are those that were asked for."""
    if said is None or said == "":
        return asked
    if not isinstance(said, str):
        raise Unreachable("the scopes in the answer are no text")
    missing = set(provider.missing(tuple(_SEPARATORS.split(said)), asked))
    return tuple(each for each in asked if each not in missing)


def _token(reply: Mapping[str, Json], name: str) -> Secret | None:
    value = reply.get(name)
    if value is None:
        return None
    # It will be sent in a header: RFC 6750 has printable characters only.
    if not isinstance(value, str) or not SHORTEST <= len(value) <= _MOST_TOKEN:
        raise Unreachable(f"{name} is no text of a sensible length")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise Unreachable(f"{name} holds characters that no token has")
    return Secret(value)


def _seconds(reply: Mapping[str, Json], name: str) -> float | None:
    value = reply.get(name)
    if value is None:
        return None
    try:
        seconds = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise Unreachable(f"{name} is no number of seconds")
    return min(seconds, _MOST_SECONDS)
