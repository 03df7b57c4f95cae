"""One line of audit: what was asked, by whom, and how it ended."""

import msgspec


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """Written once for every call, also for a refused one; never holds an argument or a result."""

    time: float
    call: str
    caller: str
    dialect: str
    tool: str
    outcome: str  # "ok", "tool_error", "asked", or the error's name
    grant: str | None = None
    arguments_sha256: str | None = None
    duration_us: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
