"""Lets a person say yes or no to one exact call, where the verdict asks for it."""

from typing import Protocol

from toolhall.model.call import Call
from toolhall.model.errors import NeedsVerification
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.model.verdict import Verify as NeedsPerson
from toolhall.pipeline.states import Valid, Verified


class Approver(Protocol):
    """The way to a person: a terminal, a page."""

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject) -> bool:
        """Whether the person agrees to this call with these arguments."""
        ...


class Verify:
    """Without a way to a person, a call that needs one is refused."""

    def __init__(self, approver: Approver | None) -> None:
        self._approver = approver

    async def __call__(self, valid: Valid) -> Verified:
        """Verified, or NeedsVerification."""
        if isinstance(valid.verdict, NeedsPerson):
            await self._ask(valid, valid.verdict)
        return Verified(valid.call, valid.entry, valid.arguments)

    async def _ask(self, valid: Valid, verdict: NeedsPerson) -> None:
        if self._approver is None:
            raise NeedsVerification(f"{verdict.how}, and nobody can be asked: run 'toolhall serve' in a terminal")
        if not await self._approver.approve(valid.entry.tool, valid.call, valid.arguments):
            raise NeedsVerification(f"{verdict.how}, and the person asked said no")
