"""What a call is supplied with, and what is said when something is missing."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.unit.builders import FixedResultRunner, call_of
from toolhall import tool
from toolhall.authoring.definition import definitions_of
from toolhall.model.caller import ANONYMOUS, LOCAL, Allow, Caller
from toolhall.model.errors import Malformed, NeedsRequirement
from toolhall.model.requirements import (
    AccountRequirement,
    AccountToken,
    CallerCredentials,
    MissingRequirement,
    ResolvedCredentials,
)
from toolhall.model.secret import Secret
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.states import Equipped, Verified
from toolhall.registry.snapshot import compile_entry

KEY, TOKEN = Secret("SK0123456789"), Secret("ya29.token")
ADA = Caller("ada", proof="key", person="ada")


class FakeCredentials:
    """Secrets and tokens by name and user; while `cached` is False, tokens have to be awaited."""

    def __init__(
        self, secrets: Mapping[Any, Secret] | None = None, tokens: Mapping[Any, AccountToken] | None = None
    ) -> None:
        self.secrets, self.tokens = secrets or {}, tokens or {}
        self.cached = True

    def get(self, name: str, user: str | None) -> Secret | None:
        return self.secrets.get((name, user)) or self.secrets.get((name, None))

    def cached_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        return self.tokens.get((need.provider, user)) if self.cached else None

    async def get_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        return self.tokens.get((need.provider, user))

    async def link_requirement(
        self, caller: Caller, need: AccountRequirement, tool: str
    ) -> tuple[MissingRequirement, str]:
        return MissingRequirement(
            "account", "link-1", "http://hall/connect/link-1", need
        ), f"{caller.user} links {need.provider}"


@tool(secrets=["KEY"])
async def send() -> str:
    """Send."""
    return "sent"


@tool(account="google:mail", user_id=True)
async def read() -> str:
    """Read."""
    return "read"


@tool(secrets=["KEY", "SECOND"], account=["google:mail", "slack:chat"])
async def both() -> str:
    """Both."""
    return "both"


def verified(function: Any, caller: Caller = ADA, brought: CallerCredentials | None = None) -> Verified:
    call = msgspec.structs.replace(call_of(caller=caller), caller_credentials=brought)
    entry = compile_entry(next(definitions_of(function)).tool, FixedResultRunner())
    return Verified(call, entry, Allow("test", 1), {})


async def equipped(equip: Equip, asked: Verified) -> Equipped:
    found = equip(asked)
    return found if isinstance(found, Equipped) else await found


def test_equip_tool_without_requirements_gets_no_credentials_and_no_redactor() -> None:
    @tool
    async def plain() -> int:
        """Plain."""
        return 1

    found = Equip()(verified(plain))
    assert isinstance(found, Equipped)
    assert (found.credentials, found.redactor) == (None, None)


def test_equip_supplies_a_secret_synchronously_with_a_redactor_for_it() -> None:
    found = Equip(FakeCredentials({("KEY", None): KEY}))(verified(send))
    assert isinstance(found, Equipped)
    assert found.credentials == ResolvedCredentials({"KEY": KEY}, {}, "ada")
    assert found.redactor is not None
    assert KEY.reveal() not in found.redactor.redact_text(f"the key is {KEY.reveal()}")


def test_equip_prefers_the_users_own_secret_over_the_shared_one() -> None:
    own = Secret("SKada")
    equip = Equip(FakeCredentials({("KEY", None): KEY, ("KEY", "ada"): own}))
    for caller, expected in ((ADA, own), (Caller("bob", proof="key"), KEY)):
        found = equip(verified(send, caller))
        assert isinstance(found, Equipped)
        assert found.credentials is not None
        assert found.credentials.secrets == {"KEY": expected}


@pytest.mark.parametrize("cached", [True, False])
async def test_equip_supplies_only_the_account_token_of_the_calling_user(cached: bool) -> None:
    store = FakeCredentials(tokens={("google", "ada"): AccountToken("google", TOKEN, ("mail",))})
    store.cached = cached
    found = await equipped(Equip(store, store), verified(read))
    assert found.credentials is not None
    assert found.credentials.accounts["google"].token == TOKEN
    assert found.credentials.user_id == "ada"
    with pytest.raises(NeedsRequirement, match="bob links google"):
        await equipped(Equip(store, store), verified(read, Caller("bob", proof="key")))


async def test_equip_error_names_all_missing_requirements() -> None:
    store = FakeCredentials({("KEY", None): KEY}, {("slack", "ada"): AccountToken("slack", TOKEN)})
    with pytest.raises(NeedsRequirement) as refused:
        await equipped(Equip(store, store), verified(both))
    link = MissingRequirement(
        "account", "link-1", "http://hall/connect/link-1", AccountRequirement("google", ("mail",))
    )
    assert refused.value.missing == (MissingRequirement("secret", "SECOND"), link)
    assert "toolhall secret set SECOND" in refused.value.message


@pytest.mark.parametrize("caller", [ANONYMOUS, Caller("app", proof="shared")])
async def test_equip_refuses_account_tokens_to_callers_without_a_proven_user(caller: Caller) -> None:
    store = FakeCredentials(tokens={("google", caller.id): AccountToken("google", TOKEN)})
    with pytest.raises(NeedsRequirement, match="nobody is proven") as refused:
        await equipped(Equip(store, store), verified(read, caller))
    assert refused.value.missing == (MissingRequirement("user_id"),)


async def test_equip_accepts_caller_credentials_only_for_tools_in_accept_credentials() -> None:
    brought = CallerCredentials({"KEY": Secret("brought-key")})
    store = FakeCredentials({("KEY", None): KEY})
    with pytest.raises(Malformed, match="accept_credentials"):
        await equipped(Equip(store), verified(send, brought=brought))
    found = await equipped(Equip(store, accept_credentials=("*.send",)), verified(send, brought=brought))
    assert found.credentials is not None
    assert found.credentials.secrets == {"KEY": Secret("brought-key")}
    assert found.redactor is not None
    assert "brought-key" not in found.redactor.redact_text("it is brought-key")


@pytest.mark.parametrize("brought", [CallerCredentials({"OTHER": KEY}), CallerCredentials(tokens={"github": TOKEN})])
async def test_equip_refuses_caller_credentials_that_the_tool_does_not_require(brought: CallerCredentials) -> None:
    with pytest.raises(Malformed, match="does not require"):
        await equipped(Equip(accept_credentials=("*",)), verified(both, brought=brought))
    with pytest.raises(Malformed, match="does not require"):
        await equipped(Equip(accept_credentials=("*",)), verified(send, LOCAL, brought))


async def test_equip_accepts_a_caller_supplied_token_without_a_proven_user() -> None:
    @tool(account="google:mail")
    async def mail() -> str:
        """Mail."""
        return "mail"

    brought = CallerCredentials(tokens={"google": TOKEN})
    found = await equipped(Equip(accept_credentials=("*",)), verified(mail, Caller("app", proof="shared"), brought))
    assert found.credentials is not None
    assert found.credentials.accounts["google"] == AccountToken("google", TOKEN, ("mail",))


async def test_equip_refuses_a_caller_credential_too_short_to_redact() -> None:
    brought = CallerCredentials(too_short=("KEY",))
    with pytest.raises(Malformed, match="shorter than 4 characters"):
        await equipped(Equip(accept_credentials=("*",)), verified(send, brought=brought))
