"""What a running tool was supplied with: its secrets and its linked accounts."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolhall.egress.outside import Outside
from toolhall.model.requirements import Equipment, Token

if TYPE_CHECKING:
    import httpx2


class Linked:
    """An account of the user at a provider, for as long as the call runs."""

    __slots__ = ("_account", "_outside")

    def __init__(self, account: Token, outside: Outside) -> None:
        self._account = account
        self._outside = outside

    @property
    def provider(self) -> str:
        """As the tool declared it."""
        return self._account.provider

    @property
    def scopes(self) -> tuple[str, ...]:
        """What the user agreed to."""
        return self._account.scopes

    @property
    def token(self) -> str:
        """The access token; send it to the provider and to nobody else."""
        return self._account.token.reveal()

    def client(self, base_url: str, **options: Any) -> "httpx2.AsyncClient":
        """An HTTP client that brings the token to `base_url`, and to no other host."""
        bearer = importlib.import_module("toolhall.egress.bearer").Bearer(base_url, self._account.token)
        return self._outside.client(base_url=base_url, auth=bearer, **options)

    def __repr__(self) -> str:
        return f"Linked({self.provider!r})"


def secret_in(equipment: Equipment, id: str) -> str:  # noqa: A002 - as OXP calls it
    """The value of a secret; only of one that the tool declared."""
    found = equipment.secrets.get(id)
    if found is None:
        raise LookupError(f"the tool does not declare the secret {id!r}; write @tool(secrets=[{id!r}])")
    return found.reveal()


def accounts_in(equipment: Equipment, outside: Outside) -> Mapping[str, Linked]:
    """All accounts that the tool declared, by provider."""
    return {provider: Linked(account, outside) for provider, account in equipment.accounts.items()}


def account_in(equipment: Equipment, outside: Outside) -> Linked:
    """The only account."""
    linked = list(accounts_in(equipment, outside).values())
    if len(linked) != 1:
        said = "declares no account" if not linked else "declares several accounts"
        fix = '@tool(account="provider:scope")' if not linked else 'ctx.accounts["provider"]'
        raise LookupError(f"the tool {said}; write {fix}")
    return linked[0]
