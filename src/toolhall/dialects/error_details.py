"""Parts of errors and results that every dialect writes alike: details of refusals, values of results."""

import base64
import math
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from toolhall.dialects.findings import BadDocument
from toolhall.model import errors
from toolhall.model.content import Audio, Content, Image, Resource, ResourceLink, Text
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import CompletedCall
from toolhall.model.requirements import MissingRequirement

Row = TypeVar("Row")
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
# Nobody knows when what cannot be reached is there again; this keeps callers from asking all the time.
UNAVAILABLE_RETRY_SECONDS = 5.0
# A refusal is never much larger than what it refuses.
MAX_PROBLEMS = 1_000
EMPTY_MESSAGE = "the message is empty; send one JSON object"
MESSAGE_TOO_LARGE = "the message is larger than is read here; send less at once"


def row_and_message(table: Mapping[type, Row], error: errors.ToolhallError) -> tuple[Row, str]:
    """The row of the nearest listed class, and the words; a fault of ours, or of no known kind, has always the same."""
    kind = next((kind for kind in type(error).__mro__ if kind in table), errors.Broken)
    return table[kind], errors.Broken.message if kind is errors.Broken else error.message


def problem_parameter(problem: errors.Problem) -> tuple[str, str]:
    """The name of the parameter at fault (empty: all of them together), and where inside it."""
    _, _, path = problem.path.partition("/")
    name, _, inside = path.partition("/")
    return name.replace("~1", "/").replace("~0", "~"), inside


def retry_after_of(error: errors.ToolhallError) -> float | None:
    """In how many seconds to try again; None where that would not help."""
    if isinstance(error, errors.Limited | errors.ToolFailed):
        return error.retry_after
    if isinstance(error, errors.Unavailable):
        return UNAVAILABLE_RETRY_SECONDS if error.retry_after is None else error.retry_after
    return None


def problems_of(error: errors.ToolhallError) -> list[JsonObject]:
    """Everything that is wrong with arguments (path, reason) or with a document (path, rule, fix)."""
    if isinstance(error, errors.BadArguments):
        return [{"path": each.path, "reason": each.reason} for each in error.problems[:MAX_PROBLEMS]]
    if isinstance(error, BadDocument):
        listed = error.findings[:MAX_PROBLEMS]
        return [{"path": each.path, "rule": each.rule, "fix": each.fix} for each in listed]
    return []


def hints_of(error: errors.ToolhallError) -> JsonObject:
    """What may help: where a person goes first, what is missing, what to call instead, what a tool says."""
    match error:
        case errors.NeedsVerification(how=how, url=str(url), id=approval):
            return {"how": how, "url": url, "id": approval}
        case errors.NeedsRequirement(missing=(_, *_) as missing):
            return _missing_hints(missing)
        case errors.Denied(scopes=(_, *_) as scopes):
            return {"scopes": list(scopes)}
        case _:
            return _retry_hints(error)


def _missing_hints(missing: tuple[MissingRequirement, ...]) -> JsonObject:
    """All that is missing; the first page to visit stands on top, as for a call that a person must verify."""
    listed = [_missing_requirement(each) for each in missing]
    page = next((each for each in listed if "url" in each), {})
    return {**{key: said for key, said in page.items() if key != "kind"}, "missing": listed}


def _missing_requirement(each: MissingRequirement) -> JsonObject:
    said: JsonObject = {"kind": each.kind}
    if each.id is not None:
        said["id"] = each.id
    if each.url is not None:
        said |= {"url": each.url, "check_url": f"{each.url}/status"}
    if each.account is not None:
        said |= {"provider": each.account.provider, "scopes": list(each.account.scopes)}
    return said


def _retry_hints(error: errors.ToolhallError) -> JsonObject:
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
        return (insufficient_scope_challenge(error.scopes),)
    wait = retry_after_of(error)
    return () if wait is None else ((b"retry-after", b"%d" % max(1, math.ceil(wait))),)


def insufficient_scope_challenge(scopes: tuple[str, ...]) -> tuple[bytes, bytes]:
    """RFC 6750: the credential is sound, but does not hold what this call needs."""
    said = f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'
    return b"www-authenticate", said.encode("latin-1", "replace")


NULL_JSON = b"null"


def result_json(finished: CompletedCall) -> bytes:
    """The value as JSON; `null` for a tool that returned nothing."""
    result = finished.result
    if result.encoded is not None:
        return result.encoded
    parts = [_block_text(block) for block in result.content]
    if not parts:
        return NULL_JSON
    return encode(parts[0] if len(parts) == 1 else parts)


def result_object_json(finished: CompletedCall) -> bytes:
    """The value as a JSON object: what is not declared as one is wrapped, whatever it looks like."""
    output = finished.tool.output
    if output.kind == "none":
        return b"{}"
    value = result_json(finished)
    if output.schema is not None and output.schema.get("type") == "object":
        return value
    # What a tool server declares in the hub's own words returns objects, and nobody has to say so.
    if finished.tool.foreign and output.kind == "unstated" and value.startswith(b"{"):
        return value
    return b'{"result":' + value + b"}"


def error_text(finished: CompletedCall) -> str:
    """What a failed result says, as one text."""
    return "\n".join(_block_text(block) for block in finished.result.content) or "the tool failed"


def _block_text(block: Content) -> str:
    match block:
        case Text(text):
            return text
        case Image(data, mime_type) | Audio(data, mime_type):
            return _data_uri(data, mime_type)
        case ResourceLink():
            return block.uri
        case Resource(content=str(text)):
            return text
        case Resource(content=bytes(data)):
            return _data_uri(data, block.mime_type or "application/octet-stream")
        case _:
            raise TypeError(f"{type(block).__name__} is not a block of content")


def _data_uri(data: bytes, mime_type: str) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
