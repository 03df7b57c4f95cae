"""One ask to run one tool."""

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.exchange import CallConsent, Link
from toolhall.model.json import JsonObject
from toolhall.model.requirements import Brought, Equipment


class Call(msgspec.Struct, frozen=True):
    """Everything a stage may know of the call it works on."""

    id: str
    tool: str
    arguments: JsonObject
    caller: Caller
    link: Link
    dialect: str
    size: int
    started: float
    brought: Brought | None = None  # what the caller sent along for the tool
    equipment: Equipment | None = None  # what the tool was supplied with, once it was
    asked_name: str | None = None  # what the caller wrote, where `tool` is what a pinned name stands for
    consent: CallConsent | None = None  # a person's yes to the whole call, of which this is a later request
