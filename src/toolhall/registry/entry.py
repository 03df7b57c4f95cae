"""One registered tool with everything a call needs ready: compiled validators and the way to run it."""

import hashlib
from collections.abc import Awaitable
from functools import cached_property
from typing import Protocol

import msgspec

from toolhall.authoring.context import Patience
from toolhall.contracts.digest import digests
from toolhall.model.call import Call
from toolhall.model.json import JsonObject
from toolhall.model.requirements import Needs, needs_of
from toolhall.model.tool import Tool
from toolhall.schema.readings import Bind
from toolhall.schema.validator import Validator


class Runner(Protocol):
    """How a tool's body is reached."""

    def run(self, tool: Tool, call: Call, arguments: JsonObject, patience: Patience) -> Awaitable[object]:
        """Run the tool: what it returns, or what it raises; its deadline is held while it asks a person."""
        ...


class Entry(msgspec.Struct, frozen=True, dict=True):
    """A tool, compiled."""

    tool: Tool
    runner: Runner
    accepts: Validator
    returns: Validator | None
    id: str  # str(tool.id), which every record repeats
    tells: bool = True  # whether it can tell or ask its caller anything while it runs
    needs: Needs | None = None  # what a call must be supplied with; None: nothing
    bind: Bind | None = None  # what its function gets for arguments; None: it is none of ours
    code_sha256: str = ""  # of the code that a call runs, where that is code of this process

    @cached_property
    def definition_sha256(self) -> str:
        """What stands for everything that the tool says and promises, made when it is first called.

        It is the SHA-256 of the two digests that a lock has of the tool, `shown` and `contract`, each on a line.
        """
        found = digests(self.tool)
        return hashlib.sha256(f"{found.shown}\n{found.contract}\n".encode()).hexdigest()


def compile_entry(
    tool: Tool, runner: Runner, *, known_good: bool = False, bind: Bind | None = None, code_sha256: str = ""
) -> Entry:
    """Do at registration what need not be done per call; raises BadSchema, unless the schemas are known to be good."""
    returned = tool.output.schema
    returns = None if returned is None else Validator(returned, known_good=known_good)
    accepts, tells = Validator(tool.input, known_good=known_good), getattr(runner, "tells", True)
    return Entry(tool, runner, accepts, returns, str(tool.id), tells, needs_of(tool.requirements), bind, code_sha256)
