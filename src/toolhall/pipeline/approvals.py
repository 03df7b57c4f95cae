"""Finds the yes that a person said to this exact call, or asks for one; nothing that the caller sends counts."""

import base64
import hashlib
import secrets
from collections.abc import Callable, Iterator
from math import isfinite

import msgspec

from toolhall.contracts.canonical import canonical
from toolhall.model.call import Call
from toolhall.model.errors import BadArguments, Limited, NeedsVerification, Problem, Unavailable
from toolhall.model.json import Json, JsonObject
from toolhall.model.requirements import Brought
from toolhall.model.verdict import Verify
from toolhall.registry.entry import Entry
from toolhall.stores.approvals.base import Approval, ApprovalStore, NotNow, Wanted
from toolhall.stores.base import StoreFailed

PATH = "/approve/"
_ID_BYTES = 16
_EXACT = 2**53 - 1  # RFC 8785: beyond this, two programs may read two numbers
_BROUGHT = "credentials that the caller brings"
_SAID = {
    "pending": "too many calls of this caller wait for a person's yes; the oldest of them ends in {:.0f} seconds",
    "denied": "a person has just said no to this tool; it can be asked for again in {:.0f} seconds",
}
_ASKED = {
    "step_up": "needs a person who has just verified again: let {person} open {url}, then repeat the call",
    "approval": "needs a person's yes to exactly this call: let {person} open {url}, then repeat the call unchanged",
    "second_person": "needs the yes of another person than {person} to exactly this call: let somebody with the scope"
    " 'approve' open {url}, then repeat the call unchanged",
}


class TooManyPending(Limited):
    """People are asked a few questions at a time, and not again right after they said no."""

    def __init__(self, refused: NotNow) -> None:
        super().__init__(refused.seconds)
        self.message = _SAID[refused.why].format(refused.seconds)
        self.args = (self.message,)


class Approvals:
    """The way to any person, by a page of the hall; `address` is where that is served now."""

    def __init__(self, store: ApprovalStore, address: Callable[[], str]) -> None:
        self.store = store
        self._address = address

    async def verify(self, call: Call, entry: Entry, arguments: JsonObject, verdict: Verify) -> str:
        """The id of the approval that this call used up; NeedsVerification says where to get one."""
        wanted = wanted_by(call, entry, arguments, verdict)
        try:
            found = await self.store.claim(wanted, new_id())
        except NotNow as refused:
            raise TooManyPending(refused) from None
        except StoreFailed as failed:
            raise Unavailable("nobody can be asked now: approvals cannot be kept", detail=str(failed)) from None
        if found.state != "pending":
            return found.id
        raise self._question(found)

    def url_of(self, approval_id: str) -> str:
        """Where the person says yes or no; it carries no authority, so whoever else gets it can do nothing with it."""
        return f"{self._address()}{PATH}{approval_id}"

    def _question(self, found: Approval) -> NeedsVerification:
        url = self.url_of(found.id)
        asked = _ASKED[found.how].format(person=found.person, url=url)
        return NeedsVerification(f"level {found.level} {asked}", how=found.how, url=url, id=found.id)


def wanted_by(call: Call, entry: Entry, arguments: JsonObject, verdict: Verify) -> Wanted:
    """What a person is asked to agree to; BadArguments if two programs could read these arguments in two ways."""
    exact = exact_bytes(arguments, call.brought)
    caller = call.caller
    return Wanted(
        how=verdict.how,
        caller=caller.id,
        person=caller.person or caller.id,
        acting_for=caller.acting_for,
        tool=entry.id,
        definition_sha256=entry.definition_sha256,
        code_sha256=entry.code_sha256,
        arguments_sha256=hashlib.sha256(exact).hexdigest(),
        shown=shown_bytes(exact),
        level=verdict.level,
        effect=entry.tool.effect,
        dialect=call.dialect,
    )


def call_sha256(call: Call, entry: Entry, arguments: JsonObject, verdict: Verify) -> str:
    """What stands for everything that a yes to this call is bound to."""
    caller, brought = call.caller, call.brought.names if call.brought else None
    who = [verdict.how, caller.id, caller.person, caller.acting_for]
    what = [entry.id, entry.definition_sha256, entry.code_sha256, arguments, brought]
    return hashlib.sha256(msgspec.json.encode([who, what], order="sorted")).hexdigest()


def exact_bytes(arguments: JsonObject, brought: Brought | None = None) -> bytes:
    """The arguments in the one spelling of RFC 8785; where credentials were brought, a list with what these are for."""
    problems = [Problem(path, reason) for path, reason in _inexact("", arguments)]
    if problems:
        raise BadArguments(problems[:10])
    # Arguments are an object, so none of them can look like such a list.
    return canonical([arguments, {_BROUGHT: brought.names}] if brought else arguments)


def shown_bytes(exact: bytes) -> bytes:
    """The same with line breaks, as a person can read it."""
    return msgspec.json.format(exact, indent=2)


def new_id() -> str:
    """128 random bits, which no dash begins: a person types it behind a command."""
    made = base64.urlsafe_b64encode(secrets.token_bytes(_ID_BYTES)).rstrip(b"=").decode()
    return new_id() if made.startswith("-") else made


def _inexact(path: str, value: Json) -> Iterator[tuple[str, str]]:
    """Where a value has no one spelling; JSON from outside is at most 64 levels deep."""
    match value:
        case bool() | None:
            return
        case dict():
            for key, part in value.items():
                yield from _inexact(f"{path}/{key.replace('~', '~0').replace('/', '~1')}", part)
        case list() | tuple():
            for number, part in enumerate(value):
                yield from _inexact(f"{path}/{number}", part)
        case int() if abs(value) > _EXACT:
            yield path, f"use whole numbers within {_EXACT} here, or a text: a person cannot approve what is not exact"
        case float() if not isfinite(value):
            yield path, "use a number"
        case str() if not _is_unicode(value):
            yield path, "use a text of whole Unicode characters"
        case str() | int() | float():
            return
        case _:
            yield path, "use plain JSON"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
