"""SecondFactors: enrols and checks TOTP codes and passkeys, with which a person proves to be present."""

import hmac
import importlib
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from toolhall.model.errors import Denied, Limited, Malformed
from toolhall.stores.crypto import SealedBox
from toolhall.stores.factors import Factor, FactorStore

STEP_SECONDS = 30
ALLOWED_DRIFT_STEPS = (0, -1, 1)  # clocks differ, and people type slowly
ENROL_SECONDS = 600.0
MAX_FACTORS = 10  # of one person
_ENROLMENT_CONTEXT = b"totp enrolment"


class WrongFactor(Denied):
    """The code or passkey does not prove that the person is present."""

    message = "that code is wrong, or was used before; wait for the next one"


class TooManyTries(Limited):
    """Too many wrong codes: limits guessing."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.message = f"too many wrong codes: try again in {seconds:.0f} seconds"
        self.args = (self.message,)


class TotpEnrolment(msgspec.Struct, frozen=True):
    """An unconfirmed TOTP factor; the client keeps it, sealed, until the first code was right."""

    id: str
    person: str
    secret: str
    by: str
    expires: float


class SecondFactors:
    """Enrols and checks the second factors of all persons; `store` is replaced when the hall is opened."""

    def __init__(self, store: FactorStore, seal: SealedBox, clock: Callable[[], float]) -> None:
        self.store = store
        self.clock = clock
        self._seal = seal

    async def factors_of(self, person: str) -> tuple[Factor, ...]:
        """Return the person's factors, without pending invitations."""
        return tuple(each for each in await self.store.all(person) if each.kind != "invitation")

    async def check_code(self, person: str, code: str) -> None:
        """Accept a TOTP code of the person that was not used before; raises WrongFactor or TooManyTries."""
        wait = await self.store.record_attempt(person)
        if wait:
            raise TooManyTries(wait)
        now = int(self.clock()) // STEP_SECONDS
        for factor in await self.factors_of(person):
            secret = self.open_secret(factor) if factor.kind == "totp" else None
            step = None if secret is None else _matching_step(secret.decode(), code, now)
            if step is not None and await self.store.advance(factor.id, step):
                await self.store.reset_attempts(person)
                return
        raise WrongFactor

    async def start_enrolment(self, person: str, by: str, issuer: str) -> tuple[str, str, str]:
        """Return a new TOTP secret as text, as an otpauth:// URL, and sealed for `confirm_enrolment`."""
        await self._check_limit(person)
        secret: str = _pyotp().random_base32()
        enrolment = TotpEnrolment(secrets.token_hex(8), person, secret, by, self.clock() + ENROL_SECONDS)
        address: str = _pyotp().TOTP(secret).provisioning_uri(name=person, issuer_name=issuer)
        return secret, address, self._seal.seal(msgspec.json.encode(enrolment), _ENROLMENT_CONTEXT)

    async def confirm_enrolment(self, sealed: str, code: str) -> Factor:
        """Store an enrolled factor if its first code is right; raises Malformed, WrongFactor or TooManyTries."""
        text = self._seal.open(sealed, _ENROLMENT_CONTEXT)
        enrolment = None if text is None else msgspec.json.decode(text, type=TotpEnrolment)
        if enrolment is None or enrolment.expires <= self.clock():
            raise Malformed("this enrolment is not valid, or too old; begin again")
        wait = await self.store.record_attempt(enrolment.person)
        if wait:
            raise TooManyTries(wait)
        step = _matching_step(enrolment.secret, code, int(self.clock()) // STEP_SECONDS)
        if step is None:
            raise WrongFactor("that code does not belong to this secret; check the clock of the device, then try again")
        await self.store.reset_attempts(enrolment.person)
        secret = self.seal_secret(enrolment.id, enrolment.person, enrolment.secret.encode())
        factor = self._factor(enrolment.id, enrolment.person, secret, enrolment.by)
        if not await self.store.add(msgspec.structs.replace(factor, counter=step)):
            raise Malformed("this enrolment was used before; begin again")
        return factor

    async def invite(self, person: str, by: str) -> tuple[str, float]:
        """Return a token with which one passkey can be added for this person, once, and when it expires."""
        await self._check_limit(person)
        token, expires = secrets.token_urlsafe(24), self.clock() + ENROL_SECONDS
        invitation = msgspec.structs.replace(
            self._factor(_invitation_id(token), person, "", by), kind="invitation", expires=expires
        )
        await self.store.add(invitation)
        return token, expires

    async def invitation(self, token: str) -> Factor | None:
        """Return the invitation of a token if it is unused and has not expired."""
        found = await self.store.find(_invitation_id(token))
        return found if found is not None and found.kind == "invitation" else None

    async def add_passkey(self, invitation: Factor, passkey: bytes, counter: int) -> Factor | None:
        """Replace an invitation by a passkey; returns None if the invitation was used meanwhile."""
        new_id = secrets.token_hex(8)  # people type it as an argument: no dash can begin it
        sealed = self.seal_secret(new_id, invitation.person, passkey)
        factor = self._factor(new_id, invitation.person, sealed, invitation.by)
        factor = msgspec.structs.replace(factor, kind="passkey", counter=counter)
        return factor if await self.store.add(factor, invitation.id) else None

    def seal_secret(self, factor_id: str, person: str, secret: bytes) -> str:
        """Encrypt a factor's secret, bound to its row: it cannot be decrypted in another person's row."""
        return self._seal.seal(secret, _associated_data(factor_id, person))

    def open_secret(self, factor: Factor) -> bytes | None:
        """Decrypt a factor's secret; None if it was not encrypted for this row."""
        return self._seal.open(factor.secret, _associated_data(factor.id, factor.person))

    def _factor(self, factor_id: str, person: str, secret: str, by: str) -> Factor:
        return Factor(id=factor_id, person=person, kind="totp", secret=secret, by=by, created_at=self.clock())

    async def _check_limit(self, person: str) -> None:
        if len(await self.store.all(person)) >= MAX_FACTORS:
            raise Malformed(f"this person has {MAX_FACTORS} factors or invitations already; remove one first")


def _invitation_id(token: str) -> str:
    """Return the id of an invitation: a digest, because the token itself is not stored."""
    return hmac.digest(b"toolhall invitation", token.encode(), "sha256").hex()[:24]


def _matching_step(secret: str, code: str, now: int) -> int | None:
    """Return the latest time step within the allowed drift that a code belongs to."""
    typed = code.replace(" ", "").encode()
    generator = _pyotp().TOTP(secret)
    matching = [now + drift for drift in ALLOWED_DRIFT_STEPS if _equal(generator.generate_otp(now + drift), typed)]
    return max(matching, default=None)


def _equal(right: str, typed: bytes) -> bool:
    return hmac.compare_digest(right.encode(), typed)


def _associated_data(factor_id: str, person: str) -> bytes:
    return msgspec.json.encode(["factor", factor_id, person])


def _pyotp() -> Any:
    """Import pyotp on first use, because few halls need it."""
    return importlib.import_module("pyotp")
