"""What a tool server joined with is looked at again, though nothing that it says comes through."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.unit.execution.remote.fake_transports import eventually
from toolhall.auth.authenticator import AuthResult, invalid_credential
from toolhall.http.tool_server_join import CredentialRecheck, HttpPeer
from toolhall.model.caller import Caller

SCOPE: dict[str, Any] = {"type": "http", "path": "/hub", "method": "POST", "client": ("10.0.0.1", 9), "own": object()}


class Issuer:
    """Has to be asked once, then is remembered; what it says may change."""

    def __init__(self) -> None:
        self.known = False
        self.valid = True
        self.seen: list[Any] = []

    def local_caller(self, scope: Any, headers: Any) -> Caller | None:
        return None

    def prepare(self, scope: Any, headers: Any) -> Callable[[], AuthResult]:
        return partial(self.authenticate, scope, headers)

    def authenticate(self, scope: Any, headers: Any) -> AuthResult:
        self.seen.append((scope, headers))
        if self.known and not self.valid:
            raise invalid_credential()
        return Caller("ci", proof="key") if self.known else self._asked()

    async def _asked(self) -> Caller:
        await asyncio.sleep(0)
        self.known = True
        if not self.valid:
            raise invalid_credential()
        return Caller("ci", proof="key")


async def test_recheck_unknown_credential_is_known_next_time() -> None:
    issuer = Issuer()
    proof = CredentialRecheck(partial(issuer.authenticate, SCOPE, {b"authorization": b"Bearer t"}))
    assert proof() is None
    await eventually(lambda: issuer.known)
    assert proof() is True
    issuer.valid = False
    assert proof() is False


async def test_recheck_slow_refusal_is_invalid() -> None:
    issuer = Issuer()
    issuer.valid = False
    proof = HttpPeer(SCOPE, {}, issuer).credential_check()
    assert proof() is None
    await eventually(lambda: issuer.known)
    assert proof() is False


def test_recheck_keeps_no_reference_to_connection() -> None:
    issuer = Issuer()
    issuer.known = True
    assert HttpPeer(SCOPE, {b"a": b"b"}, issuer).credential_check()()
    ((scope, headers),) = issuer.seen
    assert (set(scope), headers) == ({"type", "path", "method", "client"}, {b"a": b"b"})


def test_recheck_without_authenticator_is_valid() -> None:
    assert HttpPeer(SCOPE, {}).credential_check()()
