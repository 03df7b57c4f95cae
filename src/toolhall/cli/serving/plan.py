"""What `toolhall serve` was told, in the form that every way of serving reads."""

from pathlib import Path

import msgspec

from toolhall.config import Config


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One start of the server."""

    targets: tuple[str, ...]
    config: Config
    host: str | None  # as given on the command line
    port: int | None  # as given on the command line
    file: Path | None
    fixed: tuple[str, ...]  # options that an author's own Toolhall cannot take any more
    workers: int
    json: bool
    child: str | None  # "SOCKET:CHANNEL", file descriptors from the parent
