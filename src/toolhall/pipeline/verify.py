"""Lets a person say yes or no to one exact call, where the verdict asks for it."""

from collections.abc import Awaitable
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
        self.approver = approver

    def __call__(self, valid: Valid) -> Verified | Awaitable[Verified]:
        """Verified at once, or after a person said yes; NeedsVerification otherwise."""
        verdict = valid.verdict
        if isinstance(verdict, NeedsPerson):
            return self._ask(valid, verdict)
        return Verified(valid.call, valid.entry, valid.arguments)

    async def _ask(self, valid: Valid, verdict: NeedsPerson) -> Verified:
        if self.approver is None:
            raise NeedsVerification(
                f"level {verdict.level} needs a person's yes, and nobody can be asked: run 'toolhall serve' in a terminal"
            )
        if not await self.approver.approve(valid.entry.tool, valid.call, valid.arguments):
            raise NeedsVerification(f"level {verdict.level} needs a person's yes, and the person asked said no")
        return Verified(valid.call, valid.entry, valid.arguments)
