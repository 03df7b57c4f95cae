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


class UnverifiedToken(msgspec.Struct, frozen=True):
    """A token as it came."""

    text: str
    algorithm: str
    key_id: str | None
    claims: JsonObject


class TokenLifetime(msgspec.Struct, frozen=True):
    """From when until when a token is good, as far as it says."""

    expires: float
    issued: float | None
    signed_in: float | None  # only `auth_time` says: whoever refreshes a token gets a new `iat`, without a person

    @property
    def is_short(self) -> bool:
        """Whether it was issued for at most an hour."""
        return self.issued is not None and self.expires - self.issued <= SHORT_LIVED_SECONDS


def parse_token(text: str, algorithms: Collection[str]) -> UnverifiedToken | None:
    """A signed token of an algorithm that is allowed; None for everything else."""
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
    """When it is good, if that is now; one that never ends is never good."""
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
    """Whether it was issued for one of these."""
    said = claims.get("aud")
    named = said if isinstance(said, list) else [said]
    return any(isinstance(each, str) and each in audiences for each in named)


def read_subject(claims: JsonObject) -> str | None:
    """Whom it was issued to."""
    said = claims.get("sub")
    return said if isinstance(said, str) and _SUBJECT.fullmatch(said) else None


def read_scopes(claims: JsonObject) -> frozenset[str]:
    """What it may be used for: `scope` as OAuth has it, or `scp` as some issuers do."""
    said = claims.get("scope", claims.get("scp"))
    named = said.split(" ") if isinstance(said, str) else said
    if not isinstance(named, list) or len(named) > _MAX_SCOPES:
        return frozenset()
    return frozenset(each for each in named if isinstance(each, str) and each)


def caller_from_claims(issuer_name: str, claims: JsonObject, lifetime: TokenLifetime) -> Caller | None:
    """The caller of a token that was really signed by this issuer; the colon keeps it apart from every key's name."""
    named = read_subject(claims)
    if named is None:
        return None
    caller_id = f"{issuer_name}:{named}"
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
    """Seconds since 1970; what is there and is no number compares with nothing, so the token is refused."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return math.nan
    return float(value)


VerificationKey: TypeAlias = ECKey | RSAKey | OKPKey | OctKey
PUBLIC_ALGORITHMS = frozenset({"ES256", "RS256", "PS256", "Ed25519", "EdDSA"})
SHARED_ALGORITHMS = frozenset({"HS256"})
_RSA_CHARACTERS = range(342, 1_367)  # 2048 to 8192 bits
_JWK_MEMBERS = {"EC": ("kty", "crv", "x", "y"), "RSA": ("kty", "n", "e"), "OKP": ("kty", "crv", "x")}
_CURVES = {"EC": "P-256", "OKP": "Ed25519"}
_ALGORITHMS_BY_TYPE = {"EC": {"ES256"}, "RSA": {"RS256", "PS256"}, "OKP": {"Ed25519", "EdDSA"}}


class IssuerKey(msgspec.Struct, frozen=True):
    """A key of an issuer, and the algorithms that it is for."""

    id: str | None
    key: VerificationKey
    algorithms: frozenset[str]


class _Registry(JWSRegistry):
    """EdDSA is Ed25519 here; what other headers a token has does not matter, because no key is taken from them."""

    max_header_length = 4_096

    def get_alg(self, name: str) -> JWSAlgModel:
        """The algorithm of a name that is allowed."""
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
    """A key that both sides have."""
    return OctKey.import_key(secret)


def parse_jwks(document: Json) -> tuple[IssuerKey, ...]:
    """The keys of a JWKS that tokens may be signed with; RFC 7517: what is not understood is left out."""
    listed = document.get("keys") if isinstance(document, dict) else None
    found = map(_parse_jwk, listed if isinstance(listed, list) else [])
    return tuple(key for key in found if key is not None)


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
    fitting = _ALGORITHMS_BY_TYPE.get(kind, set()) if isinstance(kind, str) else set[str]()
    if stated is None or (kind == "OKP" and stated in fitting):  # two names of one
        return frozenset(fitting)
    return frozenset({stated}) if isinstance(stated, str) and stated in fitting else frozenset()


def _import_key(kind: str, jwk: JsonObject) -> VerificationKey | None:
    kinds: dict[str, type[ECKey] | type[RSAKey] | type[OKPKey]] = {"EC": ECKey, "RSA": RSAKey, "OKP": OKPKey}
    try:
        return kinds[kind].import_key({name: jwk[name] for name in _JWK_MEMBERS[kind]})
    except (JoseError, LookupError, ValueError, TypeError):
        return None
