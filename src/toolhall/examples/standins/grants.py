"""What a user agreed to, and the codes and tokens that came of it."""

import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

ACCESS_SECONDS = 120  # short, so that whoever uses the tokens has to renew them
_CODE_SECONDS = 60
_MOST = 1_000

Tokens: TypeAlias = dict[str, str | int]


@dataclass(frozen=True)
class Asked:
    """What a program asks a user for."""

    client_id: str
    redirect_uri: str
    scope: str
    challenge: str


@dataclass
class _Grant:
    """One yes; everything that came of it ends together."""

    asked: Asked
    code_until: float
    code: str | None  # until it is used
    refresh: str = ""
    access: dict[str, float] = field(default_factory=dict)  # until when each is good


class BadGrant(Exception):
    """A code or token that is good for nothing here."""


class Grants:
    """Codes and tokens begin with the grant that they are of, so that one which is used again is known for that."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._grants: OrderedDict[str, _Grant] = OrderedDict()

    def agreed(self, asked: Asked) -> str:
        """The code for what the user agreed to."""
        number = secrets.token_hex(8)
        code = _of(number)
        self._grants[number] = _Grant(asked, self._clock() + _CODE_SECONDS, code)
        if len(self._grants) > _MOST:
            self._grants.popitem(last=False)
        return code

    def exchange(self, code: str, client_id: str, redirect_uri: str, verifier: str) -> Tokens:
        """Tokens for a code, once; RFC 6749, 4.1.2: one that is used again ends all that came of it."""
        grant = self._grant(code, client_id)
        if not _same(grant.code, code) or self._clock() >= grant.code_until:
            self.end(code)
            raise BadGrant
        grant.code = None
        if redirect_uri != grant.asked.redirect_uri or not _same(grant.asked.challenge, challenge_of(verifier)):
            self.end(code)
            raise BadGrant
        return self._issued(code, grant)

    def renew(self, refresh: str, client_id: str) -> Tokens:
        """The next tokens; a refresh token that is used again was stolen from somebody, and ends them all."""
        grant = self._grant(refresh, client_id)
        if not _same(grant.refresh, refresh):
            self.end(refresh)
            raise BadGrant
        return self._issued(refresh, grant)

    def end(self, token: str) -> None:
        """RFC 7009: of what a token belongs to, nothing is good any more."""
        self._grants.pop(_number(token), None)

    def allows(self, access: str, scope: str) -> bool:
        """Whether an access token is good now, and for this."""
        grant = self._grants.get(_number(access))
        return grant is not None and self._clock() < grant.access.get(access, 0) and scope in grant.asked.scope.split()

    def _grant(self, token: str, client_id: str) -> _Grant:
        grant = self._grants.get(_number(token))
        if grant is None or grant.asked.client_id != client_id:
            raise BadGrant
        return grant

    def _issued(self, token: str, grant: _Grant) -> Tokens:
        now, number = self._clock(), _number(token)
        access, grant.refresh = _of(number), _of(number)
        grant.access = {each: until for each, until in grant.access.items() if now < until}
        grant.access[access] = now + ACCESS_SECONDS
        return {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": ACCESS_SECONDS,
            "refresh_token": grant.refresh,
            "scope": grant.asked.scope,
        }


def challenge_of(verifier: str) -> str:
    """RFC 7636, S256."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _of(number: str) -> str:
    return f"{number}.{secrets.token_urlsafe(32)}"


def _number(token: str) -> str:
    return token.partition(".")[0]


def _same(kept: str | None, given: str) -> bool:
    return bool(kept) and hmac.compare_digest((kept or "").encode(), given.encode())
