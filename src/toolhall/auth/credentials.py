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
from toolhall.stores.access import KeyRing, fingerprint

AUTHORIZATION_HEADER = b"authorization"
OXP_KEY_HEADER = b"oxp-api-key"
OXP_PREFIX = "/oxp/"
MAX_CREDENTIAL_LENGTH = 16 * 1024
_SCHEME = b"bearer "
_API_KEY_PREFIX = "tk_"
_API_KEY_PREFIX_BYTES = _API_KEY_PREFIX.encode()
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # RFC 6750
_CONFLICTING = "the request has two different credentials; send one"
MAX_FAILURES = 20
WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 10_000
_log = logging.getLogger("toolhall.identity")
VerifyResult: TypeAlias = Caller | Awaitable[Caller | None] | None


def read_credential(headers: Headers, path: str) -> str | None:
    """Return the credential of the headers, None without one; AuthenticationFailed if it is malformed or ambiguous."""
    bearer = headers.get(AUTHORIZATION_HEADER)
    key = headers.get(OXP_KEY_HEADER) if path.startswith(OXP_PREFIX) else None
    if key is None:
        return None if bearer is None else _bearer_token(bearer)
    if bearer is not None and not compare_digest(_bearer_token(bearer), _decode_credential(key)):
        raise AuthenticationFailed(Malformed(_CONFLICTING), credential_sent=True)
    return _decode_credential(key)


def read_api_key(headers: Headers, path: str) -> str | None:
    """Return the API key of the headers; None without one, for another credential, and for a malformed one."""
    try:
        credential = read_credential(headers, path)
    except AuthenticationFailed:
        return None
    return credential if credential is not None and is_api_key(credential) else None


def is_api_key(credential: str) -> bool:
    """Whether the credential is an API key, not a token."""
    return credential.startswith(_API_KEY_PREFIX)


def mentions_api_key(headers: Headers) -> bool:
    """Whether a credential header contains an API key, valid or not."""
    return _API_KEY_PREFIX_BYTES in headers.get(AUTHORIZATION_HEADER, b"") or _API_KEY_PREFIX_BYTES in headers.get(
        OXP_KEY_HEADER, b""
    )


def is_same_credential(headers: Headers, token: str) -> bool:
    """Whether the token equals the headers' credential; False without one, AuthenticationFailed if they differ."""
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


class FailureThrottle:
    """Counts failures per address (IPv6: per /64) and minute; remembers 10,000 addresses, dropping the oldest."""

    def __init__(self, clock: Callable[[], float], limit: int = MAX_FAILURES) -> None:
        self._clock = clock
        self._limit = limit
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()  # count and end of its window

    def __len__(self) -> int:
        return len(self._counts)

    def retry_after(self, address: str) -> float | None:
        """Return the seconds until this address may try again; None if it may now."""
        if not self._counts:
            return None
        count, until = self._counts.get(network_key(address), (0, 0.0))
        remaining = until - self._clock()
        return remaining if count >= self._limit and remaining > 0 else None

    def record(self, address: str) -> None:
        """Count one more failure of this address."""
        network, now = network_key(address), self._clock()
        count, until = self._counts.get(network, (0, 0.0))
        if until <= now:
            self._counts.pop(network, None)  # a new window, behind all others
            count, until = 0, now + WINDOW_SECONDS
        self._counts[network] = (count + 1, until)
        while len(self._counts) > MAX_ADDRESSES or next(iter(self._counts.values()))[1] <= now:
            self._counts.popitem(last=False)


class TokenVerifier(Protocol):
    """Verifies signed tokens of one kind."""

    def verify(self, text: str) -> VerifyResult:
        """Return the caller of a token, None if it is not valid now; awaitable if keys must be fetched."""
        ...


class CredentialVerifier:
    """Finds the caller of a credential; `oxp` verifies tokens that are valid below `/oxp/` only, and is tried first."""

    def __init__(
        self,
        keys: KeyRing,
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
        """Whether tokens of configured issuers are accepted besides API keys."""
        return self._tokens is not None

    def verify(self, text: str, scope: Scope) -> AuthResult:
        """Return the caller, or an awaitable of it if keys must be fetched; either raises AuthenticationFailed."""
        if is_api_key(text):
            result: VerifyResult = self._keys.find(text, self._clock())
        else:
            result = self._verify_token(text, scope["path"])
        if isinstance(result, Caller):
            return result
        if result is None:
            raise self._failure(scope)
        return self._await_result(result, scope)

    def prepare_key(self, key: str, scope: Scope) -> Callable[[], AuthResult]:
        """Return a function that verifies this API key anew each time, by its fingerprint."""
        mark, keys, clock = fingerprint(key), self._keys, self._clock

        def verify() -> Caller:
            caller = keys.find_marked(key, mark, clock())
            if caller is None:
                raise self._failure(scope)
            return caller

        return verify

    def verify_message_token(self, token: str, scope: Scope, headers: Headers) -> AuthResult | None:
        """Return the caller of a token inside a message; None if the headers hold the same one."""
        return None if is_same_credential(headers, token) else self.verify(token, scope)

    def _verify_token(self, text: str, path: str) -> VerifyResult:
        if self._oxp is not None and path.startswith(OXP_PREFIX):
            result = self._oxp.verify(text)
            if result is not None:
                return result
        return None if self._tokens is None else self._tokens.verify(text)

    async def _await_result(self, pending: Awaitable[Caller | None], scope: Scope) -> Caller:
        caller = await pending
        if caller is None:
            raise self._failure(scope)
        return caller

    def _failure(self, scope: Scope) -> AuthenticationFailed:
        """Count the failure. Only failures are throttled: guesses behind a shared proxy lock out no valid key."""
        address = client_address(scope)
        if is_loopback(address):
            return invalid_credential()
        wait = self._failures.retry_after(address)
        if wait is not None:
            return AuthenticationFailed(Limited(wait), credential_sent=True)
        self._failures.record(address)
        if self._failures.retry_after(address) is not None:
            _log.warning("%s sends invalid credentials and has to wait for a minute", address)
        return invalid_credential()
