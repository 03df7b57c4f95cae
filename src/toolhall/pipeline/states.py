"""The typed states of a call: Found, Allowed, Admitted, Valid, Verified, Equipped, Raw, Checked.

Theory of operation
-------------------
Every stage of the pipeline is a function from one state to the next:

    Call -find-> Found -authorize-> Allowed -limit-> Admitted -validate-> Valid -verify-> Verified -equip-> Equipped
    -run-> Raw -check-> Checked -sanitize-> Result

A tool without requirements, called by somebody whom neither a condition nor a level holds up, needs neither verify nor
equip. Unguarded is the proof of that, with which `equip_unguarded` takes the call from Valid to Equipped directly; only
`pipeline.plans` makes one.

A state is a proof: only the stage before makes it (Allowed also the pipeline itself, from a plan), and the stage after
accepts nothing else, so a pipeline that skips or swaps a stage does not type-check. States are frozen, so no later
stage can change what an earlier one decided. They repeat the fields of the state before instead of nesting it, which
saves every stage a chain of attribute lookups.

StageChain is these nine functions. A call's last state says where it ended: in the stage that follows (`STAGE_AFTER`).
"""

from collections.abc import Awaitable, Mapping
from types import FunctionType
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from toolhall.model.call_records import CallStage
from toolhall.model.caller import Allow, RequireVerification
from toolhall.model.content import Result
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call
from toolhall.model.requirements import ResolvedCredentials
from toolhall.pipeline.rate_buckets import Charge
from toolhall.redaction.redactor import Redactor
from toolhall.registry.snapshot import Entry

StateT_contra = TypeVar("StateT_contra", contravariant=True)
NextT_co = TypeVar("NextT_co", covariant=True)


class Found(msgspec.Struct, frozen=True, gc=False):
    """The tool exists, and the caller may see it."""

    call: Call
    entry: Entry


class Allowed(msgspec.Struct, frozen=True, gc=False):
    """The caller may call the tool, perhaps only after a person has verified the call."""

    call: Call
    entry: Entry
    verdict: Allow | RequireVerification
    unguarded: "Unguarded | None" = None  # None: verify and equip must run
    charges: tuple[Charge, ...] | None = None  # what the call takes from rate limits; None: limit has to compute it


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """The call is within the rate and concurrency limits."""

    call: Call
    entry: Entry
    verdict: Allow | RequireVerification


class Valid(msgspec.Struct, frozen=True, gc=False):
    """The arguments match the input schema."""

    call: Call
    entry: Entry
    verdict: Allow | RequireVerification
    arguments: JsonObject


class Verified(msgspec.Struct, frozen=True, gc=False):
    """The arguments are authorized, and a person has approved this exact call if one must; `approval` is its id."""

    call: Call
    entry: Entry
    verdict: Allow | RequireVerification
    arguments: JsonObject
    approval: str | None = None


class Equipped(msgspec.Struct, frozen=True, gc=False):
    """The secrets and account tokens that the tool requires are resolved."""

    call: Call
    entry: Entry
    verdict: Allow | RequireVerification
    arguments: JsonObject
    approval: str | None = None
    redactor: Redactor | None = None  # removes the secrets that the call uses; None if it uses none
    credentials: ResolvedCredentials | None = None  # None if the tool requires nothing


class Unguarded(msgspec.Struct, frozen=True):
    """Proof that verify and equip have nothing to do for a tool and a verdict: no condition, person or requirement."""

    entry: Entry
    verdict: Allow


class Raw(msgspec.Struct, frozen=True, gc=False):
    """The return value of the tool, unchecked."""

    entry: Entry
    value: object
    redactor: Redactor | None = None
    requested_name: str | None = None  # the URI of a resource


class Checked(msgspec.Struct, frozen=True, gc=False):
    """The result matches the output schema and the size limit."""

    entry: Entry
    result: Result
    redactor: Redactor | None = None


class Stage(Protocol[StateT_contra, NextT_co]):
    """One stage: a function from a state of a call to the next."""

    def __call__(self, state: StateT_contra, /) -> NextT_co:
        """Return the next state, or an awaitable of it; raises whatever ends the call here."""
        ...


class StageChain(msgspec.Struct, frozen=True, kw_only=True):
    """The stages that change a call's state; audit, the tenth, surrounds them."""

    find: Stage[Call, Found]
    authorize: Stage[Found, Allowed]
    limit: Stage[Allowed, Admitted]
    validate: Stage[Admitted, Valid | Awaitable[Valid]]
    verify: Stage[Valid, Verified | Awaitable[Verified]]
    equip: Stage[Verified, Equipped | Awaitable[Equipped]]
    run: Stage[Equipped, Awaitable[Raw]]
    check: Stage[Raw, Checked]
    sanitize: Stage[Checked, Result | Awaitable[Result]]

    def bound(self) -> "StageChain":
        """Return the same stages as bound methods, which the interpreter calls without a detour by their types."""
        return StageChain(**{name: _bound(getattr(self, name)) for name in StageChain.__struct_fields__})


def _bound(stage: Any) -> Any:
    """Return the method that a call of this object runs; a function stays as it is."""
    return stage if isinstance(stage, FunctionType) else stage.__call__


CallState: TypeAlias = Call | Found | Allowed | Admitted | Valid | Verified | Equipped | Raw | Checked
STAGE_AFTER: Mapping[type[CallState], CallStage] = {
    Call: "find",
    Found: "authorize",
    Allowed: "limit",
    Admitted: "validate",
    Valid: "verify",
    Verified: "equip",
    Equipped: "run",
    Raw: "check",
    Checked: "sanitize",
}
