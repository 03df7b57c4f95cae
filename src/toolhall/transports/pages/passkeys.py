"""Passkeys (WebAuthn): the person is there, and has unlocked the authenticator for this page and this purpose."""

import hashlib
import hmac
import importlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec

from toolhall.dialects import strict
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.pipeline.factors import Factors, WrongFactor
from toolhall.stores.factors.base import Factor
from toolhall.transports.asgi import Headers
from toolhall.transports.pages.place import Place

_MILLISECONDS = 300_000
_REFUSED = "the passkey did not prove that you are there; try again, or use a code"


class Passkey(msgspec.Struct, frozen=True):
    """What is kept of one: its id, and the public half of its key."""

    credential: str
    key: str


class Passkeys:
    """Asks browsers for passkeys, and reads what they answer; a challenge is good for one purpose and no other."""

    def __init__(self, factors: Factors, place: Place, key: bytes, hall: str) -> None:
        self._factors = factors
        self._place = place
        self._key = key
        self._hall = hall

    def to_create(self, invitation: Factor, headers: Headers) -> str:
        """What a browser is told to make a passkey for the person who was invited."""
        lib, structs = _webauthn(), _structs()
        chosen = structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.PREFERRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        )
        options = lib.generate_registration_options(
            rp_id=self._host(headers),
            rp_name=self._hall,
            user_name=invitation.person,
            user_id=hashlib.sha256(invitation.person.encode()).digest(),
            challenge=self._challenge("enrol", invitation.id),
            timeout=_MILLISECONDS,
            authenticator_selection=chosen,
        )
        said: str = lib.options_to_json(options)
        return said

    async def created(self, invitation: Factor, answer: str, headers: Headers) -> Factor | None:
        """Keep the passkey that a browser made; None if the invitation is gone, WrongFactor if it is none."""
        verify = _webauthn().verify_registration_response
        said = _read(answer)
        try:
            made = verify(
                credential=said,
                expected_challenge=self._challenge("enrol", invitation.id),
                expected_rp_id=self._host(headers),
                expected_origin=self._place.origin(headers),
                require_user_verification=True,
            )
        except _errors() as error:
            raise WrongFactor("this browser made no passkey that can be used here", detail=str(error)) from None
        kept = Passkey(_text(made.credential_id), _text(made.credential_public_key))
        return await self._factors.add_passkey(invitation, msgspec.json.encode(kept), made.sign_count)

    async def to_prove(self, person: str, purpose: str, headers: Headers) -> str | None:
        """What a browser is told to ask this person for; None if there is no passkey, or not at this address."""
        host, known = self._place.host(headers), await self._of(person)
        if host is None or not known:
            return None
        lib, structs = _webauthn(), _structs()
        allowed = [structs.PublicKeyCredentialDescriptor(id=_bytes(each.credential)) for _, each in known]
        options = lib.generate_authentication_options(
            rp_id=host,
            challenge=self._challenge("prove", purpose),
            timeout=_MILLISECONDS,
            allow_credentials=allowed,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        )
        said: str = lib.options_to_json(options)
        return said

    async def check(self, person: str, purpose: str, answer: str, headers: Headers) -> None:
        """Return if this proves that the person is there; WrongFactor otherwise."""
        said = _read(answer)
        for factor, passkey in await self._of(person):
            if passkey.credential == said.get("id"):
                counter = self._verified(factor, passkey, purpose, said, headers)
                if await self._factors.store.advance(factor.id, counter):
                    return
        raise WrongFactor(_REFUSED)

    def _verified(self, factor: Factor, passkey: Passkey, purpose: str, said: JsonObject, headers: Headers) -> int:
        verify = _webauthn().verify_authentication_response
        try:
            found = verify(
                credential=said,
                expected_challenge=self._challenge("prove", purpose),
                expected_rp_id=self._host(headers),
                expected_origin=self._place.origin(headers),
                credential_public_key=_bytes(passkey.key),
                credential_current_sign_count=factor.counter,
                require_user_verification=True,
            )
        except _errors() as error:
            raise WrongFactor(_REFUSED, detail=str(error)) from None
        counter: int = found.new_sign_count
        return counter

    async def _of(self, person: str) -> list[tuple[Factor, Passkey]]:
        known = [
            (each, self._factors.opened(each)) for each in await self._factors.of(person) if each.kind == "passkey"
        ]
        return [(each, msgspec.json.decode(secret, type=Passkey)) for each, secret in known if secret is not None]

    def _host(self, headers: Headers) -> str:
        host = self._place.host(headers)
        if host is None:
            raise Malformed("a passkey cannot belong to a bare address; open this page by its name, such as localhost")
        return host

    def _challenge(self, *purpose: str) -> bytes:
        """Made from its purpose, so nothing need be remembered: what it is for can be done once."""
        return hmac.digest(self._key, msgspec.json.encode(["challenge", *purpose]), "sha256")


def _read(answer: str) -> JsonObject:
    """What a browser says, as strict JSON; WrongFactor for anything else."""
    try:
        said = strict.decode(answer.encode("utf-8", "surrogatepass"))
    except Malformed as error:
        raise WrongFactor(_REFUSED, detail=error.message) from None
    if not isinstance(said, dict):
        raise WrongFactor(_REFUSED)
    return said


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _webauthn() -> Any:
    """It takes a third of a second to load, and is needed when somebody looks at a page."""
    return importlib.import_module("webauthn")


def _structs() -> Any:
    return importlib.import_module("webauthn.helpers.structs")


def _errors() -> tuple[type[Exception], ...]:
    """What the library says of answers that prove nothing; broken ones end in errors of Python's own."""
    base: type[Exception] = importlib.import_module("webauthn.helpers.exceptions").WebAuthnException
    return base, ValueError, KeyError, TypeError, RecursionError
