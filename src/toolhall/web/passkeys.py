"""`Passkeys`: WebAuthn registration and authentication, with challenges derived from their purpose.

A challenge is an HMAC of its purpose, so none is stored: the purpose itself (an invitation, an approval) can be
used only once.
"""

import hashlib
import hmac
import importlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec

from toolhall.auth.authenticator import Headers
from toolhall.dialects import strict_json
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.pipeline.second_factors import SecondFactors, WrongFactor
from toolhall.stores.factors import Factor
from toolhall.web.public_url import PublicUrl

_MILLISECONDS = 300_000
_PASSKEY_REFUSED = "the passkey did not prove that you are there; try again, or use a code"


class Passkey(msgspec.Struct, frozen=True):
    """A stored passkey: credential id and public key, in base64url."""

    credential: str
    key: str


class Passkeys:
    """Makes WebAuthn options and verifies the responses; each challenge is bound to one purpose."""

    def __init__(self, factors: SecondFactors, public_url: PublicUrl, key: bytes, name: str) -> None:
        self._factors = factors
        self._public_url = public_url
        self._key = key
        self._name = name

    def registration_options(self, invitation: Factor, headers: Headers) -> str:
        """Return the creation options for the invited person, as JSON; Malformed at an IP address."""
        lib, structs = _webauthn(), _structs()
        selection = structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.PREFERRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        )
        options = lib.generate_registration_options(
            rp_id=self._relying_party_id(headers),
            rp_name=self._name,
            user_name=invitation.person,
            user_id=hashlib.sha256(invitation.person.encode()).digest(),
            challenge=self._challenge("enrol", invitation.id),
            timeout=_MILLISECONDS,
            authenticator_selection=selection,
        )
        encoded: str = lib.options_to_json(options)
        return encoded

    async def register(self, invitation: Factor, response: str, headers: Headers) -> Factor | None:
        """Store the passkey of a response; None if the invitation is gone, WrongFactor for a bad response."""
        verify = _webauthn().verify_registration_response
        credential = _parse_credential(response)
        try:
            verified = verify(
                credential=credential,
                expected_challenge=self._challenge("enrol", invitation.id),
                expected_rp_id=self._relying_party_id(headers),
                expected_origin=self._public_url.origin(headers),
                require_user_verification=True,
            )
        except _errors() as error:
            raise WrongFactor("this browser made no passkey that can be used here", detail=str(error)) from None
        passkey = Passkey(_encode_base64(verified.credential_id), _encode_base64(verified.credential_public_key))
        return await self._factors.add_passkey(invitation, msgspec.json.encode(passkey), verified.sign_count)

    async def authentication_options(self, person: str, purpose: str, headers: Headers) -> str | None:
        """Return the request options as JSON; None if the person has no passkey, or at an IP address."""
        host, passkeys = self._public_url.relying_party_id(headers), await self._passkeys_of(person)
        if host is None or not passkeys:
            return None
        lib, structs = _webauthn(), _structs()
        allowed = [structs.PublicKeyCredentialDescriptor(id=_decode_base64(each.credential)) for _, each in passkeys]
        options = lib.generate_authentication_options(
            rp_id=host,
            challenge=self._challenge("prove", purpose),
            timeout=_MILLISECONDS,
            allow_credentials=allowed,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        )
        encoded: str = lib.options_to_json(options)
        return encoded

    async def verify(self, person: str, purpose: str, response: str, headers: Headers) -> None:
        """Return if the response proves the person's presence; raise WrongFactor otherwise."""
        credential = _parse_credential(response)
        for factor, passkey in await self._passkeys_of(person):
            if passkey.credential == credential.get("id"):
                counter = self._verify_assertion(factor, passkey, purpose, credential, headers)
                if await self._factors.store.advance(factor.id, counter):
                    return
        raise WrongFactor(_PASSKEY_REFUSED)

    def _verify_assertion(
        self, factor: Factor, passkey: Passkey, purpose: str, credential: JsonObject, headers: Headers
    ) -> int:
        verify = _webauthn().verify_authentication_response
        try:
            verified = verify(
                credential=credential,
                expected_challenge=self._challenge("prove", purpose),
                expected_rp_id=self._relying_party_id(headers),
                expected_origin=self._public_url.origin(headers),
                credential_public_key=_decode_base64(passkey.key),
                credential_current_sign_count=factor.counter,
                require_user_verification=True,
            )
        except _errors() as error:
            raise WrongFactor(_PASSKEY_REFUSED, detail=str(error)) from None
        counter: int = verified.new_sign_count
        return counter

    async def _passkeys_of(self, person: str) -> list[tuple[Factor, Passkey]]:
        passkeys = [
            (each, self._factors.open_secret(each))
            for each in await self._factors.factors_of(person)
            if each.kind == "passkey"
        ]
        return [(each, msgspec.json.decode(secret, type=Passkey)) for each, secret in passkeys if secret is not None]

    def _relying_party_id(self, headers: Headers) -> str:
        host = self._public_url.relying_party_id(headers)
        if host is None:
            raise Malformed("a passkey cannot belong to a bare address; open this page by its name, such as localhost")
        return host

    def _challenge(self, *purpose: str) -> bytes:
        """Derive the challenge from its purpose, which can be fulfilled only once; so no challenge is stored."""
        return hmac.digest(self._key, msgspec.json.encode(["challenge", *purpose]), "sha256")


def _parse_credential(response: str) -> JsonObject:
    """Parse a WebAuthn response as strict JSON; WrongFactor for anything but an object."""
    try:
        parsed = strict_json.decode(response.encode("utf-8", "surrogatepass"))
    except Malformed as error:
        raise WrongFactor(_PASSKEY_REFUSED, detail=error.message) from None
    if not isinstance(parsed, dict):
        raise WrongFactor(_PASSKEY_REFUSED)
    return parsed


def _encode_base64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode_base64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _webauthn() -> Any:
    """Import webauthn late: it takes a third of a second, and only pages need it."""
    return importlib.import_module("webauthn")


def _structs() -> Any:
    return importlib.import_module("webauthn.helpers.structs")


def _errors() -> tuple[type[Exception], ...]:
    """The errors of verification: the library's own, and Python's for malformed responses."""
    base: type[Exception] = importlib.import_module("webauthn.helpers.exceptions").WebAuthnException
    return base, ValueError, KeyError, TypeError, RecursionError
