"""Asks a provider through the door: a form goes out, a small JSON object comes back, or a reason why not."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from toolhall.accounts.failures import Refusal, Unreachable
from toolhall.accounts.forms import Form, proven, revoke_form
from toolhall.accounts.providers import Endpoints, Provider
from toolhall.dialects import strict
from toolhall.egress.errors import EgressFailed, EgressRefused
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.model.secret import Secret

if TYPE_CHECKING:
    from toolhall.egress.door import Reply

MOST_BYTES = 64 * 1024
MOST_SECONDS = 5.0
_LATER = ("server_error", "temporarily_unavailable")  # what a provider may call its own failure


class Fetching(Protocol):
    """The way to the outside: a Door, or what makes one when it is first needed."""

    @property
    def fetch(self) -> "Callable[..., Awaitable[Reply]]":
        """One request and its whole reply; EgressRefused or EgressFailed otherwise."""
        ...


class Asker:
    """Nothing of an answer but OAuth's own words gets into a message: it may hold tokens."""

    def __init__(self, door: Fetching) -> None:
        self._door = door

    async def document(self, url: str) -> JsonObject | None:
        """The JSON object at an address; None if nothing is there."""
        reply = await self._fetch("GET", url, {"accept": "application/json"})
        if 400 <= reply.status < 500:
            return None
        if reply.status != 200:
            raise Unreachable(f"status {reply.status}; redirects are not followed")
        return _object(reply)

    async def ask(
        self, provider: Provider, endpoints: Endpoints, url: str, form: Form, seconds: float = MOST_SECONDS
    ) -> JsonObject:
        """What an endpoint answers to a form; Refusal if the provider says no, Unreachable if it does not say."""
        headers, fields = proven(provider, endpoints.token_auth, form)
        reply = await self._fetch("POST", url, headers, fields, as_json=provider.preset.json, seconds=seconds)
        if reply.status >= 500 or reply.status == 429 or 300 <= reply.status < 400:
            raise Unreachable(f"{provider.name} answers with status {reply.status}")
        said = _object(reply)
        error = said.get("error")  # GitHub and Slack say it with status 200
        if error in _LATER:
            raise Unreachable(f"{provider.name} is not available")
        if error is not None:
            raise Refusal(error)
        if reply.status >= 400:
            raise Unreachable(f"{provider.name} answers with status {reply.status}")
        return said

    async def revoke(self, provider: Provider, endpoints: Endpoints, token: Secret, kind: str) -> None:
        """RFC 7009: done with status 200, whatever is in the body."""
        if endpoints.revoke_url is None:
            raise Unreachable(f"{provider.name} has no address to revoke tokens at")
        headers, fields = proven(provider, endpoints.token_auth, revoke_form(token, kind))
        reply = await self._fetch("POST", endpoints.revoke_url, headers, fields, as_json=provider.preset.json)
        if reply.status != 200:
            raise Unreachable(f"{provider.name} answers with status {reply.status}")

    async def _fetch(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        fields: Form | None = None,
        *,
        as_json: bool = False,
        seconds: float = MOST_SECONDS,
    ) -> "Reply":
        try:
            return await self._door.fetch(
                method,
                url,
                headers=headers,
                form=None if as_json else fields,
                json=fields if as_json else None,
                max_bytes=MOST_BYTES,
                seconds=seconds,
            )
        except (EgressRefused, EgressFailed) as error:
            raise Unreachable(str(error)) from None


def _object(reply: "Reply") -> JsonObject:
    try:
        found = strict.decode(reply.body)
    except Malformed:  # its message may repeat a part of the body
        raise Unreachable(f"the answer (status {reply.status}) is not JSON") from None
    if not isinstance(found, dict):
        raise Unreachable(f"the answer (status {reply.status}) is no JSON object")
    return found
