"""Credentials of requests: extraction from headers, `FailureThrottle`, and `CredentialVerifier`.

`read_credential` finds the one credential of a request (`Authorization: Bearer` or `OXP-API-Key`) and rejects two
that differ. `CredentialVerifier` checks it as an API key or a token. Only failed attempts are throttled, per client
address: guesses of one client never lock out a valid credential.
"""

import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import Protocol, TypeAlias

from toolhall.auth.authenticator import (
    AuthenticationFailed,
    AuthResult,
    Headers,
    Scope,
    client_address,
    invalid_credential,
    is_loopback,
    network_key,
)
from toolhall.model.caller import Caller
from toolhall.model.errors import Limited, Malformed

AUTHORIZATION_HEADER = b"authorization"
OXP_KEY_HEADER = b"oxp-api-key"
OXP_PREFIX = "/oxp/"
MAX_CREDENTIAL_LENGTH = 16 * 1024
_SCHEME = b"bearer "
_API_KEY_PREFIX = "tk_"
_API_KEY_PREFIX_BYTES = _API_KEY_PREFIX.encode()
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # RFC 6750
_CONFLICTING = "the request brings two different credentials; send one"


def read_credential(headers: Headers, path: str) -> str | None:
    """The text of the credential in the headers, None where there is none; Unproven for what cannot be one."""
    bearer = headers.get(AUTHORIZATION_HEADER)
    key = headers.get(OXP_KEY_HEADER) if path.startswith(OXP_PREFIX) else None
    if key is None:
        return None if bearer is None else _bearer_token(bearer)
    if bearer is not None and not compare_digest(_bearer_token(bearer), _decode_credential(key)):
        raise AuthenticationFailed(Malformed(_CONFLICTING), credential_sent=True)
    return _decode_credential(key)


def is_api_key(credential: str) -> bool:
    """Whether it is an API key, and no token of an issuer."""
    return credential.startswith(_API_KEY_PREFIX)


def mentions_api_key(headers: Headers) -> bool:
    """Whether an API key is among the credentials, good or not."""
    return _API_KEY_PREFIX_BYTES in headers.get(AUTHORIZATION_HEADER, b"") or _API_KEY_PREFIX_BYTES in headers.get(
        OXP_KEY_HEADER, b""
    )


def is_same_credential(headers: Headers, token: str) -> bool:
    """Whether a message brings the credential again that its headers bring; Unproven for another one."""
    bearer = headers.get(AUTHORIZATION_HEADER)
    if bearer is None:
        return False
    if not compare_digest(_bearer_token(bearer).encode(), token.encode(errors="replace")):
        raise AuthenticationFailed(Malformed(_CONFLICTING), credential_sent=True)
    return True


def _bearer_token(header: bytes) -> str:
    if header[:7].lower() != _SCHEME:
        raise invalid_credential()
    return _decode_credential(header[7:].strip(b" "))


def _decode_credential(credential: bytes) -> str:
    if len(credential) > MAX_CREDENTIAL_LENGTH or not _TOKEN.fullmatch(credential):
        raise invalid_credential()
    return credential.decode("ascii")


MAX_FAILURES = 20
WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 10_000


class FailureThrottle:
    """Counts by address, an IPv6 network being one; the address that began first is forgotten when there are many."""

    def __init__(self, clock: Callable[[], float], limit: int = MAX_FAILURES) -> None:
        self._clock = clock
        self._limit = limit
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how often, and until when that counts

    def __len__(self) -> int:
        return len(self._counts)

    def retry_after(self, address: str) -> float | None:
        """In how many seconds this address may try again; None where it may now."""
        if not self._counts:
            return None
        count, until = self._counts.get(network_key(address), (0, 0.0))
        left = until - self._clock()
        return left if count >= self._limit and left > 0 else None

    def record(self, address: str) -> None:
        """One more."""
        network, now = network_key(address), self._clock()
        count, until = self._counts.get(network, (0, 0.0))
        if until <= now:
            self._counts.pop(network, None)  # it begins anew, behind all others
            count, until = 0, now + WINDOW_SECONDS
        self._counts[network] = (count + 1, until)
        while len(self._counts) > MAX_ADDRESSES or next(iter(self._counts.values()))[1] <= now:
            self._counts.popitem(last=False)


_log = logging.getLogger("toolhall.identity")
VerifyResult: TypeAlias = Caller | Awaitable[Caller | None] | None


class ApiKeyLookup(Protocol):
    """The API keys there are."""

    def __len__(self) -> int:
        """How many are valid."""
        ...

    def find(self, text: str, now: float) -> Caller | None:
        """Whose key this is, if it is a valid one now."""
        ...


class TokenVerifier(Protocol):
    """A way to prove callers by signed tokens."""

    def verify(self, text: str) -> VerifyResult:
        """Who signed in with this token, if it is a valid one now."""
        ...


class CredentialVerifier:
    """Finds the caller of a credential; `oxp` are tokens that are good for OXP only, and looked at first there."""

    def __init__(
        self,
        keys: ApiKeyLookup,
        clock: Callable[[], float],
        *,
        tokens: TokenVerifier | None = None,
        oxp: TokenVerifier | None = None,
        failures: FailureThrottle | None = None,
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._tokens = tokens
        self._oxp = oxp
        self._failures = failures or FailureThrottle(clock)

    @property
    def accepts_tokens(self) -> bool:
        """Whether anything but an API key can be valid here."""
        return self._tokens is not None

    def verify(self, text: str, scope: Scope) -> AuthResult:
        """The caller, at once for a key or a token that was seen before; Unproven is raised or awaited."""
        if is_api_key(text):
            found: VerifyResult = self._keys.find(text, self._clock())
        else:
            found = self._verify_token(text, scope["path"])
        if isinstance(found, Caller):
            return found
        if found is None:
            raise self._failure(scope)
        return self._await_result(found, scope)

    def verify_message_token(self, token: str, scope: Scope, headers: Headers) -> AuthResult | None:
        """The caller of a credential inside a message; None where the headers brought the same."""
        return None if is_same_credential(headers, token) else self.verify(token, scope)

    def _verify_token(self, text: str, path: str) -> VerifyResult:
        if self._oxp is not None and path.startswith(OXP_PREFIX):
            found = self._oxp.verify(text)
            if found is not None:
                return found
        return None if self._tokens is None else self._tokens.verify(text)

    async def _await_result(self, pending: Awaitable[Caller | None], scope: Scope) -> Caller:
        found = await pending
        if found is None:
            raise self._failure(scope)
        return found

    def _failure(self, scope: Scope) -> AuthenticationFailed:
        """Only what failed is held back: a neighbour's guesses lock nobody out, least of all behind one proxy."""
        address = client_address(scope)
        if is_loopback(address):
            return invalid_credential()
        wait = self._failures.retry_after(address)
        if wait is not None:
            return AuthenticationFailed(Limited(wait), credential_sent=True)
        self._failures.record(address)
        if self._failures.retry_after(address) is not None:
            _log.warning("%s brings credentials that are not valid, and is told to wait for a minute", address)
        return invalid_credential()
