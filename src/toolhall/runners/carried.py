"""Turns results, questions and errors into what the wire carries, and back into what they were."""

import base64
import binascii
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from toolhall.model import errors
from toolhall.model.content import CONTENT_TYPES, Audio, Image, Notes, Reply, Resource, ResourceLink, Text
from toolhall.model.errors import BadArguments, BadOutput, Limited, ToolError, ToolFailed, ToolhallError, Unsupported
from toolhall.model.json import JsonObject
from toolhall.model.question import Filled, Form, Rooted, Roots, Sample, Sampled, Visit
from toolhall.runners.wire import Done, Tagged, Told
from toolhall.schema.types import to_json

_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (Text, Image, Audio, ResourceLink, Resource, Form, Visit, Sample, Roots, Filled, Sampled, Rooted)
}
_PACKAGE = str(Path(__file__).parents[1])
_EXAMPLES = str(Path(_PACKAGE, "examples"))
_STDLIB = sysconfig.get_path("stdlib")


def tagged(value: Any) -> Tagged:
    """A block, a question or a reply; of those only a resource can hold either text or bytes."""
    return Tagged(type(value).__name__, value, binary=isinstance(getattr(value, "content", None), bytes))


def untagged(carried: Tagged) -> Any:
    """The same again; raises msgspec.ValidationError or ValueError where it is none."""
    kind = _KINDS.get(carried.kind)
    if kind is None:
        raise ValueError(f"there is no {carried.kind}")
    if kind is not Resource:
        return msgspec.convert(carried.fields, kind)
    fields = msgspec.structs.asdict(msgspec.convert(carried.fields, _ResourceOfText))
    if carried.binary:
        fields["content"] = base64.b64decode(fields["content"], validate=True)
    return Resource(**fields)


class _ResourceOfText(msgspec.Struct, kw_only=True):
    """A resource whose bytes were written as text."""

    uri: str
    content: str
    mime_type: str | None = None
    notes: Notes | None = None
    meta: JsonObject | None = None


def done(value: object) -> Done:
    """What a tool returned, read as `pipeline/check` would read it; raises where JSON cannot say it."""
    if isinstance(value, Reply):
        given = value.value if value.value is msgspec.UNSET else msgspec.Raw(to_json(value.value))
        return Done(given, tuple(map(tagged, value.content)), True, value.meta, value.is_error)
    blocks = [value] if isinstance(value, CONTENT_TYPES) else value
    if isinstance(blocks, list | tuple) and blocks and all(isinstance(each, CONTENT_TYPES) for each in blocks):
        return Done(blocks=tuple(map(tagged, blocks)))
    return Done(msgspec.Raw(to_json(value)))


def returned(carried: Done) -> object:
    """The value again; BadOutput where a block has a part of the wrong type."""
    try:
        blocks = tuple(map(untagged, carried.blocks or ()))
    except (msgspec.ValidationError, ValueError, binascii.Error):
        raise BadOutput("the tool returned content that cannot be written") from None
    if carried.reply:
        return Reply(blocks, carried.value, carried.meta, carried.is_error)
    return carried.value if carried.blocks is None else blocks


def told(error: ToolhallError) -> Told:
    """An error of ours; one of the author's own kind is told as what it descends from."""
    kind = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    fields = {name: getattr(error, name) for name in Told.__struct_fields__ if name != "kind" and hasattr(error, name)}
    return Told(kind.__name__, **fields)


def raised(carried: Told) -> ToolhallError:
    """The error again."""
    kind = getattr(errors, carried.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, ToolhallError)):
        return ToolFailed(carried.message, detail=carried.detail)
    if issubclass(kind, BadArguments):
        return BadArguments(carried.problems, detail=carried.detail)
    if issubclass(kind, Unsupported):
        return Unsupported(carried.feature, detail=carried.detail)
    if issubclass(kind, Limited):
        return Limited(carried.retry_after or 0.0, detail=carried.detail)
    error: ToolhallError = kind(carried.message, detail=carried.detail)
    if isinstance(error, ToolError):
        error.code, error.details = carried.code, carried.details
    if isinstance(error, ToolFailed):
        error.retry_after, error.can_retry, error.prompt = carried.retry_after, carried.can_retry, carried.prompt
    return error


def all_tagged(values: Mapping[str, Any]) -> dict[str, Tagged]:
    """Questions or replies by their keys."""
    return {key: tagged(value) for key, value in values.items()}


def all_untagged(carried: Mapping[str, Tagged]) -> dict[str, Any]:
    """The same again."""
    return {key: untagged(value) for key, value in carried.items()}


def own_frames(error: BaseException) -> TracebackType | None:
    """The traceback from the first frame of the author's code; the whole one where there is none."""
    frame = error.__traceback__
    while frame is not None and _is_machinery(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    return frame or error.__traceback__


def _is_machinery(file: str) -> bool:
    """Whether a file is the hall's or the standard library's; the example tools are an author's."""
    if file.startswith(_PACKAGE):
        return not file.startswith(_EXAMPLES)
    return file.startswith((_STDLIB, "<frozen")) and "site-packages" not in file
