"""What `toolhall serve` was told, in the form that every way of serving reads."""

import msgspec

from toolhall.config import Config


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One start of the server."""

    targets: tuple[str, ...]
    config: Config
    host: str | None  # as given on the command line
    port: int | None  # as given on the command line
    repeated: tuple[str, ...]  # the other settings from the command line, to be said again to a child
    workers: int
    json: bool
    child: str | None  # "SOCKET:CHANNEL", file descriptors from the parent
