"""What every dialect's error table needs: an error's row, the parameter at fault, and how long to wait."""

import math
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from toolhall.model import errors

Row = TypeVar("Row")
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

# Nobody knows when what cannot be reached is there again; this keeps callers from asking all the time.
UNAVAILABLE_SECONDS = 5.0


def told(table: Mapping[type, Row], error: errors.ToolhallError) -> tuple[Row, str]:
    """The row of the nearest listed class, and the words; a fault of ours, or of no known kind, has always the same."""
    kind = next((kind for kind in type(error).__mro__ if kind in table), errors.Broken)
    return table[kind], errors.Broken.message if kind is errors.Broken else error.message


def parameter_of(problem: errors.Problem) -> tuple[str, str]:
    """The name of the parameter at fault (empty: all of them together), and where inside it."""
    _, _, path = problem.path.partition("/")
    name, _, inside = path.partition("/")
    return name.replace("~1", "/").replace("~0", "~"), inside


def wait_of(error: errors.ToolhallError) -> float | None:
    """In how many seconds to try again; None where that would not help."""
    if isinstance(error, errors.Limited):
        return error.retry_after
    return UNAVAILABLE_SECONDS if isinstance(error, errors.Unavailable) else None


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, never too few."""
    return math.ceil(seconds * 1000)


def headers_of(error: errors.ToolhallError) -> Headers:
    """What HTTP says of an error in a header of its own."""
    if isinstance(error, errors.Unauthenticated):
        return ((b"www-authenticate", b"Bearer"),)
    wait = wait_of(error)
    return () if wait is None else ((b"retry-after", b"%d" % max(1, math.ceil(wait))),)
