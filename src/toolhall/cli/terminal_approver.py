"""Asks the person at the terminal before a call of a high level runs."""

import asyncio
import sys

from toolhall.cli.screen import BOLD, YELLOW, note, person_present, styled, visible, visible_json
from toolhall.cli.terminal import forget_typed, prompt, read_line, says_yes
from toolhall.cli.waiting import quiet
from toolhall.model.call import Call
from toolhall.model.errors import Limited
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.model.verdict import Verify
from toolhall.stores.approvals.base import MOST_PENDING

# Nobody reads more than this before saying yes, and what was not read was not approved.
_MOST_LETTERS = 20_000
_AGAIN_SECONDS = 30.0  # about as long as a decision takes


def terminal_approver() -> "TerminalApprover | None":
    """The way to the person at this terminal, if there is one."""
    return TerminalApprover() if sys.platform != "win32" and person_present() else None


class TerminalApprover:
    """Shows one exact call at a time and waits for a clear yes; the hall goes on meanwhile."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject, verdict: Verify) -> bool:
        """Whether the person typed yes to this call; Limited if too many wait for that already."""
        shown = [f"    {visible(name)} = {visible_json(value)}" for name, value in arguments.items()]
        if sum(map(len, shown)) > _MOST_LETTERS:
            note(f"Refused {tool.id}: its arguments are too long to be read")
            return False
        if self._waiting >= MOST_PENDING:
            raise Limited(_AGAIN_SECONDS, detail="the person at the terminal has too many calls to decide")
        self._waiting += 1
        try:
            async with self._turn:
                with quiet("approval"):
                    return await self._ask(tool, call, shown, verdict.level)
        finally:
            self._waiting -= 1

    async def _ask(self, tool: Tool, call: Call, shown: list[str], level: int) -> bool:
        note(styled(f"\nA call of level {level} needs your yes", BOLD, sys.stderr))
        note(f"  tool    {visible(str(tool.id))}\n  caller  {visible(call.caller.id)}")
        if call.caller.acting_for is not None:
            note(f"  user    {visible(call.caller.acting_for)}")
        if call.brought:
            note(f"  brings  {visible(', '.join(call.brought.names))}")
        note("  arguments")
        note("\n".join(shown) or "    none")
        forget_typed()
        prompt(styled("Run it? [y/N] ", YELLOW, sys.stderr))
        try:
            agreed = says_yes(await read_line())
        except asyncio.CancelledError:
            note("\nThe caller went away.")
            raise
        note("Approved." if agreed else "Refused.")
        return agreed
