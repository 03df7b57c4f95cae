"""What a tool needs besides its arguments is declared by its author and supplied by the hall, never by the model."""

import pytest

from toolhall import Context, Toolkit, tool
from toolhall.model.caller import Caller
from toolhall.model.errors import NeedsRequirement
from toolhall.testing import Client


@tool(secrets=["TWILIO_API_KEY"])
async def send(ctx: Context, to: str) -> str:
    """Send a message."""
    return f"to {to} with a key of {len(ctx.secret('TWILIO_API_KEY'))} letters"


async def test_declared_secret_is_supplied() -> None:
    async with Client(send, supplies={"TWILIO_API_KEY": "SK0123456789"}) as client:
        assert await client.call(send, to="Ada") == "to Ada with a key of 12 letters"


async def test_secrets_are_not_in_the_schema() -> None:
    async with Client(send, supplies={"TWILIO_API_KEY": "SK0123456789"}) as client:
        (shown,) = await client.list_tools()
        assert list(shown.input["properties"]) == ["to"]


async def test_missing_requirement_refuses_the_call_with_the_fix() -> None:
    async with Client(send) as client:
        with pytest.raises(NeedsRequirement, match="toolhall secret set TWILIO_API_KEY"):
            await client.call(send, to="Ada")


async def test_secret_in_a_result_is_redacted() -> None:
    @tool(secrets=["TWILIO_API_KEY"])
    async def leak(ctx: Context) -> str:
        """Leak."""
        return f"the key is {ctx.secret('TWILIO_API_KEY')}"

    async with Client(leak, supplies={"TWILIO_API_KEY": "SK0123456789"}) as client:
        assert "SK0123456789" not in await client.call(leak)


async def test_declared_account_is_supplied_as_a_token() -> None:
    class Calendar(Toolkit, account="google:calendar.events"):
        """The user's calendar."""

        @tool
        def letters(self, ctx: Context) -> int:
            """How long the token is."""
            return len(ctx.account.token)

    calendar = Calendar()
    async with Client(calendar, supplies={"google": "ya29.token"}) as client:
        assert await client.call(calendar.letters) == 10


async def test_user_id_is_supplied() -> None:
    @tool(user_id=True)
    async def who(ctx: Context) -> str | None:
        """Who calls."""
        return ctx.user_id

    async with Client(who, caller=Caller("app", proof="key", person="ada")) as client:
        assert await client.call(who) == "ada"
