"""A real hall with several callers, house rules and a person to ask, reached through its ASGI application."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import pytest

from tests.harness.asgi_client import post_json
from tests.harness.http_client import Response
from toolhall import Config, Toolhall
from toolhall.app import wiring
from toolhall.auth.authenticator import Headers, Scope
from toolhall.http import authentication
from toolhall.http.authentication import AuthComponents
from toolhall.model.caller import ANONYMOUS, Allow, Caller, Deny, RequireVerification, Verdict
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call
from toolhall.model.tool import Tool
from toolhall.pipeline.access_rules import AccessRules
from toolhall.pipeline.policy import LevelPolicy

ADA, BOB, EVE = "ada", "bob", "eve"  # may do everything; may only read; does not see what is hidden
FAINT = "faint"  # what breaks the hall itself, once it asks a person to agree to it
CALLER_HEADER = "x-test-caller"
# So slow that no allowance fills up again within a test: the first few calls are admitted, whatever the clock says.
RATE, BURST = 0.001, 4


class HeaderAuthenticator:
    """The authenticator of these tests: the caller is the one that a header names."""

    def local_caller(self, scope: Any, headers: Any) -> Caller | None:
        return None

    def prepare(self, scope: Scope, headers: Headers) -> Callable[[], Caller]:
        return partial(self.authenticate, scope, headers)

    def authenticate(self, scope: Scope, headers: Headers) -> Caller:
        """By a header that only these tests look at."""
        name = headers.get(CALLER_HEADER.encode())
        return Caller(name.decode(), local=True, proof="local") if name else ANONYMOUS

    def authenticate_message(self, token: str | None, caller: Caller, scope: Scope, headers: Headers) -> Caller:
        """No message makes somebody else of a caller."""
        return caller


class HousePolicy(LevelPolicy):
    """The policy of these tests: gives every kind of verdict."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)

    def can_see(self, caller: Caller, tool: Tool) -> bool:
        """Nobody sees anything, Eve sees what is not hidden."""
        return caller.id in (ADA, BOB) or (caller.id == EVE and "hidden" not in tool.tags)

    def can_see_all(self, caller: Caller) -> bool:
        """Lists need no filter for these two."""
        return caller.id in (ADA, BOB)

    def authorize(self, caller: Caller, tool: Tool) -> Verdict:
        """Bob may not change anything; from level 7 a person is asked."""
        if not self.can_see(caller, tool):
            return Deny(f"{caller.id} does not see this")
        if caller.id == BOB and tool.effect in ("writes", "destroys"):
            return Deny(f"{caller.id} may only read")
        if (tool.level or 1) >= 7:
            return RequireVerification(f"grant:{caller.id}", tool.level or 0, "approval")
        return Allow(f"grant:{caller.id}", tool.level or 1)

    def authorize_arguments(
        self, verdict: Allow | RequireVerification, caller: Caller, tool: Tool, arguments: JsonObject
    ) -> Verdict:
        """Nothing here depends on arguments."""
        return verdict

    def cache_key(self, caller: Caller) -> Hashable:
        """One key for each caller: nothing else changes a decision."""
        return caller.id

    def set_rules(self, rules: AccessRules) -> None:
        """These rules are the house's own."""

    def is_admin(self, caller: Caller) -> bool:
        """Ada's house."""
        return caller.id == ADA


class Person:
    """Says yes to Ada only, and remembers what the question was."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, JsonObject]] = []

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject, verdict: RequireVerification) -> bool:
        """A yes or no to one exact call."""
        self.asked.append((call.caller.id, str(tool.id), arguments))
        if arguments.get("text") == FAINT:
            raise RuntimeError("nobody is there any more")
        return call.caller.id == ADA


def _auth(*_: object) -> AuthComponents:
    return AuthComponents(HeaderAuthenticator(), None, {})


def _policy(*_: object, **__: object) -> HousePolicy:
    return HousePolicy()


class House:
    """One hall, with everything that shows what a call did to it."""

    def __init__(self, *tools: object) -> None:
        self.person = Person()
        config = Config(calls_per_second=RATE, call_burst=BURST)
        # The composition root builds both from the settings: it is handed another identity and policy by name.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(authentication, "build_auth", _auth)
            patch.setattr(wiring, "LevelPolicy", _policy)
            self.hall = Toolhall(*tools, config=config, approver=self.person)
            assert self.hall.http is not None  # builds the authenticator while it is patched

    async def post(self, path: str, body: bytes, caller: str | None, headers: dict[str, str]) -> Response:
        """One POST by whoever it says."""
        return await post_json(self.hall.http, path, body, ({CALLER_HEADER: caller} if caller else {}) | headers)
