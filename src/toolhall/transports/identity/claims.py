"""What a token says, read strictly, and who its caller is; nothing here knows whether it was really signed."""

import binascii
import math
import re
from base64 import urlsafe_b64decode
from collections.abc import Collection

import msgspec

from toolhall.dialects import strict
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject

LEEWAY_SECONDS = 60.0
SHORT_SECONDS = 3_600.0
_MOST_SCOPES = 256
_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
_PART = re.compile(r"[A-Za-z0-9_-]+")
_SUBJECT = re.compile(r"[^\x00-\x20\x7f-\x9f\u2028\u2029](?:[^\x00-\x1f\x7f-\x9f\u2028\u2029]{0,254})")


class Unverified(msgspec.Struct, frozen=True):
    """A token as it came."""

    text: str
    algorithm: str
    key_id: str | None
    claims: JsonObject


class Lifetime(msgspec.Struct, frozen=True):
    """From when until when a token is good, as far as it says."""

    expires: float
    issued: float | None
    signed_in: float | None  # only `auth_time` says: whoever refreshes a token gets a new `iat`, without a person

    @property
    def short(self) -> bool:
        """Whether it was issued for at most an hour."""
        return self.issued is not None and self.expires - self.issued <= SHORT_SECONDS


def read(text: str, algorithms: Collection[str]) -> Unverified | None:
    """A signed token of an algorithm that is allowed; None for everything else."""
    parts = text.split(".")
    if len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        return None
    header, claims = _object(parts[0]), _object(parts[1])
    if header is None or claims is None or "crit" in header or "b64" in header:
        return None
    kind, algorithm, key_id = header.get("typ"), header.get("alg"), header.get("kid")
    if (kind.lower() if isinstance(kind, str) else kind) not in _TYPES:
        return None
    if not isinstance(algorithm, str) or algorithm not in algorithms or not isinstance(key_id, str | None):
        return None
    return Unverified(text, algorithm, key_id, claims)


def lifetime(claims: JsonObject, now: float) -> Lifetime | None:
    """When it is good, if that is now; one that never ends is never good."""
    expires, begins, issued = (_moment(claims.get(name)) for name in ("exp", "nbf", "iat"))
    if expires is None or math.isnan(expires) or expires + LEEWAY_SECONDS <= now:
        return None
    if any(each is not None and not each - LEEWAY_SECONDS <= now for each in (begins, issued)):
        return None
    signed_in = _moment(claims.get("auth_time"))
    if signed_in is not None and math.isnan(signed_in):
        return None
    return Lifetime(expires, issued, signed_in)


def is_for(claims: JsonObject, audiences: Collection[str]) -> bool:
    """Whether it was issued for one of these."""
    said = claims.get("aud")
    named = said if isinstance(said, list) else [said]
    return any(isinstance(each, str) and each in audiences for each in named)


def subject(claims: JsonObject) -> str | None:
    """Whom it was issued to."""
    said = claims.get("sub")
    return said if isinstance(said, str) and _SUBJECT.fullmatch(said) else None


def scopes(claims: JsonObject) -> frozenset[str]:
    """What it may be used for: `scope` as OAuth has it, or `scp` as some issuers do."""
    said = claims.get("scope", claims.get("scp"))
    named = said.split(" ") if isinstance(said, str) else said
    if not isinstance(named, list) or len(named) > _MOST_SCOPES:
        return frozenset()
    return frozenset(each for each in named if isinstance(each, str) and each)


def caller_of(issuer_name: str, claims: JsonObject, good: Lifetime) -> Caller | None:
    """The caller of a token that was really signed by this issuer; the colon keeps it apart from every key's name."""
    named = subject(claims)
    if named is None:
        return None
    caller_id = f"{issuer_name}:{named}"
    return Caller(
        caller_id,
        proof="token",
        person=caller_id,
        scopes=scopes(claims),
        expires_at=good.expires,
        authenticated_at=good.signed_in,
        short_lived=good.short,
    )


def _object(part: str) -> JsonObject | None:
    try:
        value = strict.decode(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (Malformed, binascii.Error):
        return None
    return value if isinstance(value, dict) else None


def _moment(value: Json) -> float | None:
    """Seconds since 1970; what is there and is no number compares with nothing, so the token is refused."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return math.nan
    return float(value)
