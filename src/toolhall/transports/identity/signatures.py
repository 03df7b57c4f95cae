"""Signatures of tokens, by joserfc: a short list of algorithms, and only keys of the kind that each one needs."""

from typing import Any, TypeAlias

import msgspec
from joserfc.errors import JoseError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry, deserialize_compact

from toolhall.model.json import Json, JsonObject

Key: TypeAlias = ECKey | RSAKey | OKPKey | OctKey

PUBLIC_ALGORITHMS = frozenset({"ES256", "RS256", "PS256", "Ed25519", "EdDSA"})
SHARED_ALGORITHMS = frozenset({"HS256"})
_RSA_CHARACTERS = range(342, 1_367)  # 2048 to 8192 bits
_MEMBERS = {"EC": ("kty", "crv", "x", "y"), "RSA": ("kty", "n", "e"), "OKP": ("kty", "crv", "x")}
_CURVES = {"EC": "P-256", "OKP": "Ed25519"}
_FITTING = {"EC": {"ES256"}, "RSA": {"RS256", "PS256"}, "OKP": {"Ed25519", "EdDSA"}}


class PublicKey(msgspec.Struct, frozen=True):
    """A key of an issuer, and the algorithms that it is for."""

    id: str | None
    key: Key
    algorithms: frozenset[str]


class _Registry(JWSRegistry):
    """EdDSA is Ed25519 here; what other headers a token has does not matter, because no key is taken from them."""

    max_header_length = 4_096

    def get_alg(self, name: str) -> JWSAlgModel:
        """The algorithm of a name that is allowed."""
        return super().get_alg("Ed25519" if name == "EdDSA" else name)


_public = _Registry(algorithms=PUBLIC_ALGORITHMS, strict_check_header=False)
_shared = _Registry(algorithms=SHARED_ALGORITHMS, strict_check_header=False)


def is_signed(text: str, key: Key) -> bool:
    """Whether this key signed the token."""
    try:
        deserialize_compact(text, key, registry=_shared if isinstance(key, OctKey) else _public)
    except (JoseError, ValueError, TypeError):
        return False
    return True


def shared_key(secret: str) -> Key:
    """A key that both sides have."""
    return OctKey.import_key(secret)


def public_keys(document: Json) -> tuple[PublicKey, ...]:
    """The keys of a JWKS that tokens may be signed with; RFC 7517: what is not understood is left out."""
    listed = document.get("keys") if isinstance(document, dict) else None
    found = map(_public_key, listed if isinstance(listed, list) else [])
    return tuple(key for key in found if key is not None)


def _public_key(said: Any) -> PublicKey | None:
    if not isinstance(said, dict) or said.get("use", "sig") != "sig" or "verify" not in said.get("key_ops", ["verify"]):
        return None
    kind, key_id = said.get("kty"), said.get("kid")
    algorithms = _algorithms(kind, said.get("alg"))
    if not algorithms or not isinstance(key_id, str | None) or said.get("crv") != _CURVES.get(str(kind)):
        return None
    if kind == "RSA" and len(str(said.get("n"))) not in _RSA_CHARACTERS:
        return None
    key = _imported(str(kind), said)
    return None if key is None else PublicKey(key_id, key, algorithms)


def _algorithms(kind: Json, stated: Json) -> frozenset[str]:
    fitting = _FITTING.get(kind, set()) if isinstance(kind, str) else set[str]()
    if stated is None or (kind == "OKP" and stated in fitting):  # two names of one
        return frozenset(fitting)
    return frozenset({stated}) if isinstance(stated, str) and stated in fitting else frozenset()


def _imported(kind: str, said: JsonObject) -> Key | None:
    kinds: dict[str, type[ECKey] | type[RSAKey] | type[OKPKey]] = {"EC": ECKey, "RSA": RSAKey, "OKP": OKPKey}
    try:
        return kinds[kind].import_key({name: said[name] for name in _MEMBERS[kind]})
    except (JoseError, LookupError, ValueError, TypeError):
        return None
