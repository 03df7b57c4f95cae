"""One ask to run one tool."""

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.exchange import Link
from toolhall.model.json import JsonObject


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
