"""What became of a line that does not fit where it stands."""

import re
from pathlib import Path

from toolhall.stores.audit.findings import What
from toolhall.stores.audit.lines import Chain
from toolhall.stores.reading import MOST_LINE

_NUMBER = re.compile(rb'\{"sha256":"[^"]*","number":(\d{1,18}),')


def named(segment: Path, raw: bytes, chain: Chain) -> tuple[What, str]:
    """What is wrong with the line that should be the chain's next one."""
    expected, stated = chain.number, _number_in(raw)
    if not raw.endswith(b"\n"):
        return "cut off", "the line has no end, and is not the last"
    if stated is None or stated == expected or chain.fits_but_for_number(raw[:-1]):
        return "changed", "the line, or its hash, is not what was written"
    if stated < expected:
        return "moved", f"number {stated} stands here once more"
    if holds(segment, expected):
        return "moved", f"number {stated} stands here, and number {expected} elsewhere"
    return "missing", f"number {stated} follows on {expected - 1}"


def misplaced(segment: Path, raw: bytes, chain: Chain) -> tuple[What, str]:
    """What is wrong with a segment, whose first line this is, that should be the chain's next one."""
    if Chain(chain.number, chain.last).fits(raw[:-1]):
        return "moved", "the file has another name than it had"
    return named(segment, raw, chain)


def holds(segment: Path, number: int) -> bool:
    """Whether a line of a segment says that it has this number."""
    with segment.open("rb") as file:
        while raw := file.readline(MOST_LINE):
            if _number_in(raw) == number:
                return True
    return False


def _number_in(raw: bytes) -> int | None:
    found = _NUMBER.match(raw)
    return None if found is None else int(found[1])
