"""What every dialect's error table needs: an error's row, every problem, how long to wait, and what a tool advises."""

import math
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from toolhall.dialects.findings import BadDocument
from toolhall.model import errors
from toolhall.model.json import JsonObject
from toolhall.model.requirements import Missing

Row = TypeVar("Row")
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

# Nobody knows when what cannot be reached is there again; this keeps callers from asking all the time.
UNAVAILABLE_SECONDS = 5.0
# A refusal is never much larger than what it refuses.
MOST_PROBLEMS = 1_000
EMPTY = "the message is empty; send one JSON object"
TOO_LARGE = "the message is larger than is read here; send less at once"


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
    if isinstance(error, errors.Limited | errors.ToolFailed):
        return error.retry_after
    if isinstance(error, errors.Unavailable):
        return UNAVAILABLE_SECONDS if error.retry_after is None else error.retry_after
    return None


def problems_of(error: errors.ToolhallError) -> list[JsonObject]:
    """Everything that is wrong with arguments (path, reason) or with a document (path, rule, fix)."""
    if isinstance(error, errors.BadArguments):
        return [{"path": each.path, "reason": each.reason} for each in error.problems[:MOST_PROBLEMS]]
    if isinstance(error, BadDocument):
        listed = error.findings[:MOST_PROBLEMS]
        return [{"path": each.path, "rule": each.rule, "fix": each.fix} for each in listed]
    return []


def advice_of(error: errors.ToolhallError) -> JsonObject:
    """What may help: where a person goes first, what is missing, what to call instead, what a tool says."""
    match error:
        case errors.NeedsVerification(how=how, url=str(url), id=approval):
            return {"how": how, "url": url, "id": approval}
        case errors.NeedsRequirement(missing=(_, *_) as missing):
            return _wanted(missing)
        case errors.Denied(scopes=(_, *_) as scopes):
            return {"scopes": list(scopes)}
        case _:
            return _later(error)


def _wanted(missing: tuple[Missing, ...]) -> JsonObject:
    """All that is missing; the first page to visit stands on top, as for a call that a person must verify."""
    listed = [_missing(each) for each in missing]
    page = next((each for each in listed if "url" in each), {})
    return {**{key: said for key, said in page.items() if key != "kind"}, "missing": listed}


def _missing(each: Missing) -> JsonObject:
    said: JsonObject = {"kind": each.kind}
    if each.id is not None:
        said["id"] = each.id
    if each.url is not None:
        said |= {"url": each.url, "check_url": f"{each.url}/status"}
    if each.account is not None:
        said |= {"provider": each.account.provider, "scopes": list(each.account.scopes)}
    return said


def _later(error: errors.ToolhallError) -> JsonObject:
    if isinstance(error, errors.NotActive):
        return {"state": error.state}
    if isinstance(error, errors.Retired):
        return {} if error.successor is None else {"successor": error.successor}
    if not isinstance(error, errors.ToolFailed):
        return {}
    advice: JsonObject = {"can_retry": True} if error.can_retry else {}
    return advice if error.prompt is None else {**advice, "prompt": error.prompt}


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, never too few."""
    return math.ceil(seconds * 1000)


def headers_of(error: errors.ToolhallError) -> Headers:
    """What HTTP says of an error in a header of its own."""
    if isinstance(error, errors.Unauthenticated):
        return ((b"www-authenticate", b"Bearer"),)
    if isinstance(error, errors.Denied) and error.scopes:
        return (challenge(error.scopes),)
    wait = wait_of(error)
    return () if wait is None else ((b"retry-after", b"%d" % max(1, math.ceil(wait))),)


def challenge(scopes: tuple[str, ...]) -> tuple[bytes, bytes]:
    """RFC 6750: the credential is sound, but does not hold what this call needs."""
    said = f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'
    return b"www-authenticate", said.encode("latin-1", "replace")
