"""The typed states of a call: each stage takes the state before and returns its own, so none can be skipped.

Found, Allowed, Admitted, Valid, Verified, Equipped, Raw, Checked. Skipping a stage does not type-check.
"""

import msgspec

from toolhall.model.caller import Allow, RequireVerification
from toolhall.model.content import Result
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call
from toolhall.model.requirements import ResolvedCredentials
from toolhall.redaction.redactor import Redactor
from toolhall.registry.snapshot import Entry


class Found(msgspec.Struct, frozen=True, gc=False):
    """The tool exists for this caller."""

    call: Call
    entry: Entry


class Allowed(msgspec.Struct, frozen=True, gc=False):
    """The caller may call it, perhaps after a person's yes."""

    call: Call
    entry: Entry
    verdict: Allow | RequireVerification


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """The caller is within its limits."""

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
    """A person agreed to this exact call, where one must; `approval` is the proof of it."""

    call: Call
    entry: Entry
    verdict: Allow | RequireVerification
    arguments: JsonObject
    approval: str | None = None


class Equipped(msgspec.Struct, frozen=True, gc=False):
    """What the tool requires has been supplied."""

    call: Call
    entry: Entry
    verdict: Allow | RequireVerification
    arguments: JsonObject
    approval: str | None = None
    redactor: Redactor | None = None  # hides the secrets that the call uses; None: it uses none
    credentials: ResolvedCredentials | None = None  # what the tool declares to need; None: nothing


class Raw(msgspec.Struct, frozen=True, gc=False):
    """What the tool returned, before anyone looked at it."""

    entry: Entry
    value: object
    redactor: Redactor | None = None


class Checked(msgspec.Struct, frozen=True, gc=False):
    """What the tool returned is what it promised."""

    entry: Entry
    result: Result
    redactor: Redactor | None = None
