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
    """What was shown does not prove that the person is there."""

    message = "that code is wrong, or was used before; wait for the next one"


class TooManyTries(Limited):
    """Codes are not to be guessed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.message = f"too many wrong codes: try again in {seconds:.0f} seconds"
        self.args = (self.message,)


class TotpEnrolment(msgspec.Struct, frozen=True):
    """A code generator that is not one yet; the person carries it, sealed, until the first code was right."""

    id: str
    person: str
    secret: str
    by: str
    expires: float


class SecondFactors:
    """The factors of all people; `store` may be another one after the hall was opened."""

    def __init__(self, store: FactorStore, seal: SealedBox, clock: Callable[[], float]) -> None:
        self.store = store
        self.clock = clock
        self._seal = seal

    async def factors_of(self, person: str) -> tuple[Factor, ...]:
        """What this person can prove to be there with."""
        return tuple(each for each in await self.store.all(person) if each.kind != "invitation")

    async def check_code(self, person: str, code: str) -> None:
        """Return if this is a code of the person's that was not used before; WrongFactor or TooManyTries otherwise."""
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
        """A new secret: as text, as an otpauth:// address, and sealed for `confirm`."""
        await self._check_limit(person)
        secret: str = _pyotp().random_base32()
        draft = TotpEnrolment(secrets.token_hex(8), person, secret, by, self.clock() + ENROL_SECONDS)
        address: str = _pyotp().TOTP(secret).provisioning_uri(name=person, issuer_name=issuer)
        return secret, address, self._seal.seal(msgspec.json.encode(draft), _ENROLMENT_CONTEXT)

    async def confirm_enrolment(self, sealed: str, code: str) -> Factor:
        """Keep what was drafted, once its first code is right."""
        text = self._seal.open(sealed, _ENROLMENT_CONTEXT)
        draft = None if text is None else msgspec.json.decode(text, type=TotpEnrolment)
        if draft is None or draft.expires <= self.clock():
            raise Malformed("this enrolment is not valid, or too old; begin again")
        wait = await self.store.record_attempt(draft.person)
        if wait:
            raise TooManyTries(wait)
        step = _matching_step(draft.secret, code, int(self.clock()) // STEP_SECONDS)
        if step is None:
            raise WrongFactor("that code does not belong to this secret; check the clock of the device, then try again")
        await self.store.reset_attempts(draft.person)
        secret = self.seal_secret(draft.id, draft.person, draft.secret.encode())
        factor = self._factor(draft.id, draft.person, secret, draft.by)
        if not await self.store.add(msgspec.structs.replace(factor, counter=step)):
            raise Malformed("this enrolment was used before; begin again")
        return factor

    async def invite(self, person: str, by: str) -> tuple[str, float]:
        """A word that lets whoever has it add one passkey for this person, once, and until when."""
        await self._check_limit(person)
        word, until = secrets.token_urlsafe(24), self.clock() + ENROL_SECONDS
        invitation = msgspec.structs.replace(
            self._factor(_invitation_id(word), person, "", by), kind="invitation", expires=until
        )
        await self.store.add(invitation)
        return word, until

    async def invitation(self, token: str) -> Factor | None:
        """What this word invites to, if it was not used and is not too old."""
        found = await self.store.find(_invitation_id(token))
        return found if found is not None and found.kind == "invitation" else None

    async def add_passkey(self, invitation: Factor, passkey: bytes, counter: int) -> Factor | None:
        """Keep a passkey in place of the invitation; None if somebody was faster."""
        new_id = secrets.token_hex(8)  # a person types it: no dash can begin it
        sealed = self.seal_secret(new_id, invitation.person, passkey)
        factor = self._factor(new_id, invitation.person, sealed, invitation.by)
        factor = msgspec.structs.replace(factor, kind="passkey", counter=counter)
        return factor if await self.store.add(factor, invitation.id) else None

    def seal_secret(self, factor_id: str, person: str, secret: bytes) -> str:
        """Bound to this row: in another person's it does not open."""
        return self._seal.seal(secret, _associated_data(factor_id, person))

    def open_secret(self, factor: Factor) -> bytes | None:
        """The secret of a factor; None if it is not this person's."""
        return self._seal.open(factor.secret, _associated_data(factor.id, factor.person))

    def _factor(self, factor_id: str, person: str, secret: str, by: str) -> Factor:
        return Factor(id=factor_id, person=person, kind="totp", secret=secret, by=by, created_at=self.clock())

    async def _check_limit(self, person: str) -> None:
        if len(await self.store.all(person)) >= MAX_FACTORS:
            raise Malformed(f"this person has {MAX_FACTORS} factors or invitations already; remove one first")


def _invitation_id(token: str) -> str:
    """The word itself is kept nowhere."""
    return hmac.digest(b"toolhall invitation", token.encode(), "sha256").hex()[:24]


def _matching_step(secret: str, code: str, now: int) -> int | None:
    """The time step that a code belongs to, of those that are near enough."""
    typed = code.replace(" ", "").encode()
    generator = _pyotp().TOTP(secret)
    fitting = [now + near for near in ALLOWED_DRIFT_STEPS if _equal(generator.generate_otp(now + near), typed)]
    return max(fitting, default=None)


def _equal(right: str, typed: bytes) -> bool:
    return hmac.compare_digest(right.encode(), typed)


def _associated_data(factor_id: str, person: str) -> bytes:
    return msgspec.json.encode(["factor", factor_id, person])


def _pyotp() -> Any:
    """Few halls ever need it."""
    return importlib.import_module("pyotp")
