"""What rules say of a caller and a tool, whatever language they are written in."""

from typing import Protocol, TypeAlias

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool


class Permitted(msgspec.Struct, frozen=True):
    """Yes, and the rule that says so."""

    by: str


class Conditional(msgspec.Struct, frozen=True):
    """It depends on the arguments."""


class Forbidden(msgspec.Struct, frozen=True):
    """No, whatever else says yes, and the rule that says so."""

    by: str


class Unmatched(msgspec.Struct, frozen=True):
    """No rule says yes, which is a no."""


Ruling: TypeAlias = Permitted | Conditional | Forbidden | Unmatched


class Rules(Protocol):
    """Who may call what: grants, or policies in another language."""

    def ruling(self, caller: Caller, tool: Tool, level: int) -> Ruling:
        """What they say as far as it does not depend on the arguments."""
        ...

    def settled(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> Ruling:
        """What they say of these arguments; never Conditional."""
        ...


class NoRules:
    """Nobody was granted anything."""

    def ruling(self, caller: Caller, tool: Tool, level: int) -> Ruling:  # noqa: ARG002 - nothing is ever granted
        """No."""
        return Unmatched()

    def settled(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> Ruling:  # noqa: ARG002
        """No."""
        return Unmatched()
