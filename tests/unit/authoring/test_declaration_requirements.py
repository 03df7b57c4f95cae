"""What authors write of requirements becomes the definition, and mistakes are refused where they are made."""

from typing import Any

import pytest

from toolhall import BadDeclaration, Context, Toolkit, tool
from toolhall.authoring.definition import definitions_of
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.model.requirements import AccountToken, ResolvedCredentials
from toolhall.model.secret import Secret


def requirements(target: object) -> Any:
    return next(definitions_of(target)).tool.requirements


def test_requirements_of_toolkit_and_tool_are_merged() -> None:
    class Mail(Toolkit, account="google:a b", secrets=["ONE"]):
        """Mail."""

        @tool(account=["google:b c", "slack"], secrets=["TWO", "ONE"], user_id=True)
        def read(self) -> int:
            """Read."""
            return 1

    assert requirements(Mail) == {
        "authorization": [{"id": "google", "oauth2": {"scopes": ["a", "b", "c"]}}, {"id": "slack"}],
        "secrets": [{"id": "ONE"}, {"id": "TWO"}],
        "user_id": True,
    }


def test_requirements_empty_is_none() -> None:
    @tool
    def plain() -> int:
        """Plain."""
        return 1

    assert requirements(plain) is None


@pytest.mark.parametrize(
    ("option", "value", "fix"),
    [
        ("secrets", "KEY", "use a list such as ['TWILIO_API_KEY']"),
        ("secrets", ["a key"], "use letters, digits"),
        ("secrets", [""], "use letters, digits"),
        ("account", 'google:a"b', "such as 'google:calendar.events'"),
        ("account", "google:a\\b", "such as 'google:calendar.events'"),
        ("account", "google: x", "such as 'google:calendar.events'"),
        ("account", ["google", 3], "such as 'google:calendar.events'"),
        ("user_id", "yes", "use True or False"),
    ],
)
def test_invalid_requirement_is_refused_with_the_fix(option: str, value: object, fix: str) -> None:
    options: Any = {option: value}
    with pytest.raises(BadDeclaration, match="tool 'wrong'") as refused:

        @tool(**options)
        def wrong() -> None:
            """Wrong."""

    assert fix in str(refused.value)
    with pytest.raises(BadDeclaration, match="toolkit 'Wrong'"):
        type("Wrong", (Toolkit,), {}, **options)


def test_context_returns_declared_credentials_only() -> None:
    accounts = {"google": AccountToken("google", Secret("ya29.token"), ("mail",))}
    context = Context(equipment=ResolvedCredentials({"KEY": Secret("hunter22")}, accounts, "ada"))
    assert context.secret("KEY") == "hunter22"
    assert context.account.token == "ya29.token"
    assert context.accounts["google"].scopes == ("mail",)
    assert context.user_id == "ada"
    assert "ya29" not in repr(context.account)
    with pytest.raises(LookupError, match=r"declare the secret 'OTHER'; write @tool\(secrets=\['OTHER'\]\)"):
        context.secret("OTHER")


def test_context_account_with_none_or_several_raises() -> None:
    with pytest.raises(LookupError, match="declares no account"):
        Context().account  # noqa: B018 - looking at it is what raises
    several = {name: AccountToken(name, Secret("token")) for name in ("google", "slack")}
    with pytest.raises(LookupError, match="declares several accounts"):
        Context(equipment=ResolvedCredentials(accounts=several)).account  # noqa: B018


async def test_context_clients_use_the_egress_client() -> None:
    outside = LazyEgressClient()
    assert outside.egress_client is outside.egress_client
    async with Context(outside=outside).http() as client:
        assert client.trust_env is False
        assert client.follow_redirects is False
