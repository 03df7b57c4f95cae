"""Which files an audit is made of: a folder for each log, in it a file for each segment."""

import re
from collections.abc import Iterable
from pathlib import Path

FOLDER = "audit"  # in the data folder
LOCK_FILE = "audit.lock"  # held by the process that writes to a log
BEFORE_CHAINS = "audit.jsonl"  # in the data folder, of halls that had no chain yet

_SEGMENT = re.compile(r"audit-(\d{12,18})\.jsonl")
_LOG = re.compile(r"[1-9]\d{0,5}")


def segment_name(number: int) -> str:
    """The file whose first line has this number."""
    return f"audit-{number:012d}.jsonl"


def torn_name(number: int, at: int) -> str:
    """Where bytes are set aside that a crash left at this place of a segment."""
    return f"audit-{number:012d}-{at}.torn"


def first_number(name: str) -> int:
    """The number of a segment's first line, as its name says."""
    found = _SEGMENT.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is no segment")
    return int(found[1])


def segment_names(names: Iterable[str]) -> list[str]:
    """Those of segments, the oldest first."""
    return sorted(filter(_SEGMENT.fullmatch, names), key=first_number)


def segments_of(log: Path) -> list[Path]:
    """The files of one log, the oldest first."""
    return [log / name for name in segment_names(path.name for path in log.iterdir())]


def logs_of(folder: Path) -> list[Path]:
    """The folders of all logs: one for each process that wrote at the same time as others."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _LOG.fullmatch(path.name)), key=lambda path: int(path.name))
