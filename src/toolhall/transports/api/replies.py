"""How management answers: JSON, and errors as plain REST has them."""

import msgspec

from toolhall.dialects.findings import BadDocument
from toolhall.dialects.openapi.errors import write_error
from toolhall.model.errors import ToolhallError
from toolhall.model.exchange import Wire
from toolhall.model.json import Json, encode
from toolhall.registrar.promises import BrokenPromise
from toolhall.transports.api.managed import Contradiction

CONFLICT = 409


def reply(value: Json, status: int = 200) -> Wire:
    """A value, as JSON."""
    return Wire(encode(value), status)


def refusal(error: ToolhallError) -> Wire:
    """Any error; what contradicts what is registered is no fault of the request alone, so it is a conflict.

    Nor is a definition that cannot be registered: the request that brings it is as it should be.
    """
    wire = write_error(error)
    if not isinstance(error, BadDocument | Contradiction):
        return wire
    said = msgspec.json.decode(wire.body)
    bad = isinstance(error, BadDocument) and not isinstance(error, BrokenPromise)
    said["error"]["code"] = "bad_definition" if bad else "conflict"
    return Wire(encode(said), CONFLICT, wire.headers)
