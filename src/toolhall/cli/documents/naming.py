"""Names of dialects on the command line, checked before anything is read."""

from toolhall.cli.failure import WrongUsage
from toolhall.dialects.catalogs import DIALECTS, READABLE


def check_readable(name: str | None) -> None:
    """Refuse a --from that cannot be read."""
    if name is not None and name not in READABLE:
        raise WrongUsage(f"--from {name!r} is no dialect that can be read; use one of {', '.join(READABLE)}")


def check_writable(name: str) -> None:
    """Refuse a --to that cannot be written."""
    if name not in DIALECTS:
        raise WrongUsage(f"--to {name!r} is no dialect; use one of {', '.join(DIALECTS)}")
