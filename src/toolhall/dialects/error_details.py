"""Parts of errors and results that all dialects share: problems, hints and headers of errors, values of results."""

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
# It is unknown when an unreachable tool returns; this delay keeps callers from retrying in a loop.
UNAVAILABLE_RETRY_SECONDS = 5.0
# Bounds an error response, so that it is never much larger than the request that caused it.
MAX_PROBLEMS = 1_000
NULL_JSON = b"null"
EMPTY_MESSAGE = "the message is empty; send one JSON object"
MESSAGE_TOO_LARGE = "the message is larger than is read here; send less at once"


def row_and_message(table: Mapping[type, Row], error: errors.ToolhallError) -> tuple[Row, str]:
    """The table row of the error's nearest listed class, and the public message.

    An unlisted error gets the row of Broken, and Broken always has the same message, because its text may be internal.
    """
    kind = next((kind for kind in type(error).__mro__ if kind in table), errors.Broken)
    return table[kind], errors.Broken.message if kind is errors.Broken else error.message


def problem_parameter(problem: errors.Problem) -> tuple[str, str]:
    """The name of the parameter at fault (empty: the arguments as a whole), and the path inside it."""
    _, _, path = problem.path.partition("/")
    name, _, inside = path.partition("/")
    return name.replace("~1", "/").replace("~0", "~"), inside


def retry_after_of(error: errors.ToolhallError) -> float | None:
    """Seconds until a retry may succeed; None if a retry would not help."""
    if isinstance(error, errors.Limited | errors.ToolFailed):
        return error.retry_after
    if isinstance(error, errors.Unavailable):
        return UNAVAILABLE_RETRY_SECONDS if error.retry_after is None else error.retry_after
    return None


def problems_of(error: errors.ToolhallError) -> list[JsonObject]:
    """All problems of bad arguments (path, reason) or of a bad document (path, rule, fix), at most MAX_PROBLEMS."""
    if isinstance(error, errors.BadArguments):
        return [{"path": problem.path, "reason": problem.reason} for problem in error.problems[:MAX_PROBLEMS]]
    if isinstance(error, BadDocument):
        listed = error.findings[:MAX_PROBLEMS]
        return [{"path": problem.path, "rule": problem.rule, "fix": problem.fix} for problem in listed]
    return []


def hints_of(error: errors.ToolhallError) -> JsonObject:
    """Details that help the caller recover: pages to visit, missing requirements or scopes, retry advice, successor."""
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
    """Every missing requirement; the first one with a page is repeated at the top level, as for NeedsVerification."""
    items = [_missing_requirement(item) for item in missing]
    page = next((item for item in items if "url" in item), {})
    return {**{key: value for key, value in page.items() if key != "kind"}, "missing": items}


def _missing_requirement(missing: MissingRequirement) -> JsonObject:
    hints: JsonObject = {"kind": missing.kind}
    if missing.id is not None:
        hints["id"] = missing.id
    if missing.url is not None:
        hints |= {"url": missing.url, "check_url": f"{missing.url}/status"}
    if missing.account is not None:
        hints |= {"provider": missing.account.provider, "scopes": list(missing.account.scopes)}
    return hints


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
    """Whole milliseconds, rounded up."""
    return math.ceil(seconds * 1000)


def headers_of(error: errors.ToolhallError) -> Headers:
    """HTTP response headers that belong to an error: a challenge or Retry-After."""
    if isinstance(error, errors.Unauthenticated):
        return ((b"www-authenticate", b"Bearer"),)
    if isinstance(error, errors.Denied) and error.scopes:
        return (insufficient_scope_challenge(error.scopes),)
    wait = retry_after_of(error)
    return () if wait is None else ((b"retry-after", b"%d" % max(1, math.ceil(wait))),)


def insufficient_scope_challenge(scopes: tuple[str, ...]) -> tuple[bytes, bytes]:
    """The RFC 6750 challenge for a valid credential that lacks scopes."""
    challenge = f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'
    return b"www-authenticate", challenge.encode("latin-1", "replace")


def result_json(finished: CompletedCall) -> bytes:
    """The result's value as JSON; `null` for a tool that returned nothing."""
    result = finished.result
    if result.encoded is not None:
        return result.encoded
    parts = [_block_text(block) for block in result.content]
    if not parts:
        return NULL_JSON
    return encode(parts[0] if len(parts) == 1 else parts)


def result_object_json(finished: CompletedCall) -> bytes:
    """The result's value as a JSON object: anything not declared as an object is wrapped, whatever it looks like."""
    output = finished.tool.output
    if output.kind == "none":
        return b"{}"
    value = result_json(finished)
    if output.schema is not None and output.schema.get("type") == "object":
        return value
    # A tool server that declares its tools in the hub dialect returns objects without an output schema.
    if finished.tool.foreign and output.kind == "unstated" and value.startswith(b"{"):
        return value
    return b'{"result":' + value + b"}"


def error_text(finished: CompletedCall) -> str:
    """The content of a failed result as one text."""
    return "\n".join(_block_text(block) for block in finished.result.content) or "the tool failed"


def encode_base64(data: bytes) -> str:
    """Base64 as ASCII text."""
    return base64.b64encode(data).decode()


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
    return f"data:{mime_type};base64,{encode_base64(data)}"
