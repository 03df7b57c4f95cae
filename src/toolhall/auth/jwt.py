"""JSON Web Tokens: strict parsing of claims, and signature checks with joserfc.

The claims functions do not verify anything; `is_signed_by` does. The algorithms are a fixed allow-list, and each
accepts only keys of its own type. Keys in token headers are ignored.
"""

import binascii
import math
import re
from base64 import urlsafe_b64decode
from collections.abc import Collection
from typing import Any, TypeAlias

import msgspec
from joserfc.errors import JoseError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry, deserialize_compact

from toolhall.dialects import strict_json
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject

LEEWAY_SECONDS = 60.0
SHORT_LIVED_SECONDS = 3_600.0
_MAX_SCOPES = 256
_TOKEN_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
_PART = re.compile(r"[A-Za-z0-9_-]+")
_SUBJECT = re.compile(r"[^\x00-\x20\x7f-\x9f\u2028\u2029](?:[^\x00-\x1f\x7f-\x9f\u2028\u2029]{0,254})")
VerificationKey: TypeAlias = ECKey | RSAKey | OKPKey | OctKey
PUBLIC_ALGORITHMS = frozenset({"ES256", "RS256", "PS256", "Ed25519", "EdDSA"})
SHARED_ALGORITHMS = frozenset({"HS256"})
_RSA_CHARACTERS = range(342, 1_367)  # 2048 to 8192 bits
_JWK_MEMBERS = {"EC": ("kty", "crv", "x", "y"), "RSA": ("kty", "n", "e"), "OKP": ("kty", "crv", "x")}
_CURVES = {"EC": "P-256", "OKP": "Ed25519"}
_ALGORITHMS_BY_TYPE = {"EC": {"ES256"}, "RSA": {"RS256", "PS256"}, "OKP": {"Ed25519", "EdDSA"}}


class UnverifiedToken(msgspec.Struct, frozen=True):
    """A well-formed token whose signature has not been verified."""

    text: str
    algorithm: str
    key_id: str | None
    claims: JsonObject


class TokenLifetime(msgspec.Struct, frozen=True):
    """The validity period of a token as its claims state it."""

    expires: float
    issued: float | None
    signed_in: float | None  # from `auth_time`: a refreshed token has a new `iat` although no person signed in

    @property
    def is_short(self) -> bool:
        """Whether it was issued for at most an hour."""
        return self.issued is not None and self.expires - self.issued <= SHORT_LIVED_SECONDS


def parse_token(text: str, algorithms: Collection[str]) -> UnverifiedToken | None:
    """Parse a compact JWS with an allowed algorithm; None for anything else."""
    parts = text.split(".")
    if len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        return None
    header, claims = _decode_object(parts[0]), _decode_object(parts[1])
    if header is None or claims is None or "crit" in header or "b64" in header:
        return None
    kind, algorithm, key_id = header.get("typ"), header.get("alg"), header.get("kid")
    if (kind.lower() if isinstance(kind, str) else kind) not in _TOKEN_TYPES:
        return None
    if not isinstance(algorithm, str) or algorithm not in algorithms or not isinstance(key_id, str | None):
        return None
    return UnverifiedToken(text, algorithm, key_id, claims)


def read_lifetime(claims: JsonObject, now: float) -> TokenLifetime | None:
    """Return the lifetime of a token that is valid now; None otherwise, also for one without `exp`."""
    expires, begins, issued = (_timestamp(claims.get(name)) for name in ("exp", "nbf", "iat"))
    if expires is None or math.isnan(expires) or expires + LEEWAY_SECONDS <= now:
        return None
    if any(each is not None and not each - LEEWAY_SECONDS <= now for each in (begins, issued)):
        return None
    signed_in = _timestamp(claims.get("auth_time"))
    if signed_in is not None and math.isnan(signed_in):
        return None
    return TokenLifetime(expires, issued, signed_in)


def has_audience(claims: JsonObject, audiences: Collection[str]) -> bool:
    """Whether `aud` names one of these audiences."""
    audience = claims.get("aud")
    audiences_of_token = audience if isinstance(audience, list) else [audience]
    return any(isinstance(each, str) and each in audiences for each in audiences_of_token)


def read_subject(claims: JsonObject) -> str | None:
    """Return `sub` if it is a printable text of at most 255 characters."""
    subject = claims.get("sub")
    return subject if isinstance(subject, str) and _SUBJECT.fullmatch(subject) else None


def read_scopes(claims: JsonObject) -> frozenset[str]:
    """Return the scopes of `scope` (OAuth, separated by blanks) or `scp` (a list with some issuers)."""
    value = claims.get("scope", claims.get("scp"))
    scopes = value.split(" ") if isinstance(value, str) else value
    if not isinstance(scopes, list) or len(scopes) > _MAX_SCOPES:
        return frozenset()
    return frozenset(each for each in scopes if isinstance(each, str) and each)


def caller_from_claims(issuer_name: str, claims: JsonObject, lifetime: TokenLifetime) -> Caller | None:
    """Return the caller `ISSUER:SUBJECT` of verified claims; the colon keeps it apart from names of API keys."""
    subject = read_subject(claims)
    if subject is None:
        return None
    caller_id = f"{issuer_name}:{subject}"
    return Caller(
        caller_id,
        proof="token",
        person=caller_id,
        scopes=read_scopes(claims),
        expires_at=lifetime.expires,
        authenticated_at=lifetime.signed_in,
        short_lived=lifetime.is_short,
    )


def _decode_object(part: str) -> JsonObject | None:
    try:
        value = strict_json.decode(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (Malformed, binascii.Error):
        return None
    return value if isinstance(value, dict) else None


def _timestamp(value: Json) -> float | None:
    """Return seconds since 1970; NaN for a value that is no number, which fails every comparison."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return math.nan
    return float(value)


class IssuerKey(msgspec.Struct, frozen=True):
    """A verification key of an issuer, with the algorithms it may be used for."""

    id: str | None
    key: VerificationKey
    algorithms: frozenset[str]


class _Registry(JWSRegistry):
    """joserfc's registry with EdDSA as a name of Ed25519; unknown headers are ignored, no key is taken from them."""

    max_header_length = 4_096

    def get_alg(self, name: str) -> JWSAlgModel:
        """Return the algorithm of an allowed name."""
        return super().get_alg("Ed25519" if name == "EdDSA" else name)


_public_registry = _Registry(algorithms=PUBLIC_ALGORITHMS, strict_check_header=False)
_shared_registry = _Registry(algorithms=SHARED_ALGORITHMS, strict_check_header=False)


def is_signed_by(text: str, key: VerificationKey) -> bool:
    """Whether this key signed the token."""
    try:
        deserialize_compact(text, key, registry=_shared_registry if isinstance(key, OctKey) else _public_registry)
    except (JoseError, ValueError, TypeError):
        return False
    return True


def shared_key(secret: str) -> VerificationKey:
    """Return the HMAC key of a shared secret."""
    return OctKey.import_key(secret)


def parse_jwks(document: Json) -> tuple[IssuerKey, ...]:
    """Return the signature keys of a JSON Web Key Set; keys that are not understood are skipped (RFC 7517)."""
    entries = document.get("keys") if isinstance(document, dict) else None
    keys = map(_parse_jwk, entries if isinstance(entries, list) else [])
    return tuple(key for key in keys if key is not None)


def _parse_jwk(jwk: Any) -> IssuerKey | None:
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ["verify"]):
        return None
    kind, key_id = jwk.get("kty"), jwk.get("kid")
    algorithms = _algorithms(kind, jwk.get("alg"))
    if not algorithms or not isinstance(key_id, str | None) or jwk.get("crv") != _CURVES.get(str(kind)):
        return None
    if kind == "RSA" and len(str(jwk.get("n"))) not in _RSA_CHARACTERS:
        return None
    key = _import_key(str(kind), jwk)
    return None if key is None else IssuerKey(key_id, key, algorithms)


def _algorithms(kind: Json, stated: Json) -> frozenset[str]:
    allowed = _ALGORITHMS_BY_TYPE.get(kind, set()) if isinstance(kind, str) else set[str]()
    if stated is None or (kind == "OKP" and stated in allowed):  # EdDSA and Ed25519 are two names of one
        return frozenset(allowed)
    return frozenset({stated}) if isinstance(stated, str) and stated in allowed else frozenset()


def _import_key(kind: str, jwk: JsonObject) -> VerificationKey | None:
    kinds: dict[str, type[ECKey] | type[RSAKey] | type[OKPKey]] = {"EC": ECKey, "RSA": RSAKey, "OKP": OKPKey}
    try:
        return kinds[kind].import_key({name: jwk[name] for name in _JWK_MEMBERS[kind]})
    except (JoseError, LookupError, ValueError, TypeError):
        return None
