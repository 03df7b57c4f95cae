"""What the hall and a worker process say to each other: JSON in frames of a known length, never pickle."""

import signal
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.errors import Problem
from toolhall.model.exchange import LogLevel
from toolhall.model.json import Json, JsonObject
from toolhall.runners.address import Address
from toolhall.runners.supply import Supply
from toolhall.schema.types import to_json

_LENGTH = struct.Struct(">I")
LENGTH_BYTES = _LENGTH.size
# From the hall to a worker's supervisor: kill the worker and all that it started. Windows has neither.
END_SIGNAL: int = getattr(signal, "SIGUSR1", signal.SIGTERM)
MOST_SAID = 64 * 1024 * 1024  # what the hall itself says; a worker has a cap of its own


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process may use."""

    memory: int = 1024 * 1024 * 1024  # bytes of address space
    files: int = 256
    processes: int = 512  # more than its user has when it starts
    file_bytes: int = 256 * 1024 * 1024
    result_bytes: int = 4 * 1024 * 1024  # of one frame that it sends


# --- from the hall ---------------------------------------------------------------------------------------------------


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Confine yourself, import the module, and say when you are ready."""

    address: Address
    path: tuple[str, ...]  # where to import from
    limits: Limits
    parent: int
    hidden: tuple[str, ...] = ()  # paths that it must not be able to open


class Work(msgspec.Struct, frozen=True, tag="work"):
    """Run this."""

    address: Address
    tool: str
    arguments: JsonObject
    caller: Caller
    can: tuple[str, ...]  # what the caller's program can do
    cpu_seconds: int
    supply: Supply | None = None  # what the tool requires
    allow: tuple[str, ...] = ()  # private hosts that it may reach
    code_sha256: str = ""  # of the function as it was registered; another one is not run


class Replied(msgspec.Struct, frozen=True, tag="replied"):
    """What came of a question: replies by key, or an error, or that the call comes again later with the replies."""

    number: int
    replies: dict[str, "Tagged"] = {}
    error: "Told | None" = None
    later: bool = False


# --- from the worker -------------------------------------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The module is imported; `missing` are the restrictions that this kernel does not have."""

    missing: tuple[str, ...] = ()


class Unfit(msgspec.Struct, frozen=True, tag="unfit"):
    """The module cannot be imported here."""

    trace: str


class Said(msgspec.Struct, frozen=True, tag="said"):
    """Progress, or something for the caller to read."""

    done: float | None = None
    total: float | None = None
    message: str | None = None
    level: LogLevel = "info"
    data: Json = None
    logger: str | None = None


class Questions(msgspec.Struct, frozen=True, tag="questions"):
    """Put these to the caller; none at all: let it hang up for so long."""

    number: int
    asked: dict[str, "Tagged"] = {}
    retry_ms: int | None = None


class Done(msgspec.Struct, frozen=True, tag="done"):
    """What the tool returned."""

    value: Json = msgspec.UNSET
    blocks: tuple["Tagged", ...] | None = None
    reply: bool = False
    meta: JsonObject | None = None
    is_error: bool = False


class Told(msgspec.Struct, frozen=True, tag="told", omit_defaults=True):
    """An error of the tree, raised by the tool."""

    kind: str
    message: str
    detail: str | None = None
    problems: tuple[Problem, ...] = ()
    feature: str = ""
    retry_after: float | None = None
    can_retry: bool = False
    prompt: str | None = None
    code: str = "TOOL_ERROR"
    details: JsonObject = {}


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """Any other exception, for the log; `spent` says that the worker should be replaced."""

    trace: str
    memory: bool = False
    spent: bool = False


class Unwritable(msgspec.Struct, frozen=True, tag="unwritable"):
    """It returned what JSON cannot say."""

    trace: str


class TooLarge(msgspec.Struct, frozen=True, tag="too_large"):
    """It returned more than may be passed on."""

    size: int


class Unwound(msgspec.Struct, frozen=True, tag="unwound"):
    """It asked, and ended because the answer comes with a later call."""


class Tagged(msgspec.Struct, frozen=True):
    """A block, a question or a reply, with the name of its type."""

    kind: str
    fields: Json
    binary: bool = False


Order: TypeAlias = Start | Work | Replied
End: TypeAlias = Done | Told | Raised | Unwritable | TooLarge | Unwound
Report: TypeAlias = Ready | Unfit | Said | Questions | End

read_order: Callable[[bytes], Order] = msgspec.json.Decoder(Order).decode
read_report: Callable[[bytes], Report] = msgspec.json.Decoder(Report).decode


def frame(message: Any) -> bytes:
    """A message, ready to be sent."""
    body = to_json(message)
    return _LENGTH.pack(len(body)) + body


def length_of(head: bytes) -> int:
    """How long the message behind this head is."""
    length: int = _LENGTH.unpack(head)[0]
    return length
