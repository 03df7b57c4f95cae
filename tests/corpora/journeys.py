"""Helpers for round trips of definitions: converted documents, unlisted losses, JSON pointers."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from toolhall.dialects.base import Catalog, Loss
from toolhall.dialects.convert.converter import Converter
from toolhall.dialects.convert.lossless import join_document, split_document
from toolhall.dialects.convert.targets import ConversionResult
from toolhall.dialects.convert.translate import detach_loss_record


def exactly(value: Any) -> bytes:
    """A text that distinguishes 1, 1.0 and true, and ignores the order of members."""
    return msgspec.json.encode(value, order="deterministic")


def converted(given: Iterable[Any], target: str, source: str | None = None) -> list[ConversionResult]:
    """The results of one run of the converter."""
    converter = Converter(target, source)
    parts = [part for index, each in enumerate(given) for part in converter.feed(each, index)]
    return [*parts, *converter.finish()]


def documents(parts: Iterable[ConversionResult]) -> list[Any]:
    return [document for part in parts for document in part.documents]


def without_loss_records(written: list[Any], source: Catalog, target: Catalog) -> Any:
    """The documents converted back without their loss records; each must be valid without its own."""
    given = [detach_loss_record(document, target)[0] for document in written]
    ids = [tool.id for document in given for tool in target.read(document)]
    converter = Converter(source.name, target.name, whole=True)
    parts = [part for index, each in enumerate(given) for part in converter.feed(each, index)]
    back = [detach_loss_record(document, source)[0] for document in documents([*parts, *converter.finish()])]
    # Tools that still know their toolkit are one document; an odd name may not say it, and that is listed as lost.
    toolkits = {(each.toolkit, each.version) for each in ids}
    if source.grouped and len(set(ids)) == len(ids) and len(back) != len(toolkits):
        raise AssertionError(f"{len(toolkits)} toolkits became {len(back)} documents without their carriers")
    if len(toolkits) > 1:  # put together above in another order than they had
        back = [
            detach_loss_record(documents(converted([each], source.name, target.name))[0], source)[0] for each in given
        ]
    split_up = [split_document(document, source) for document in back]
    return join_document(split_up[0][0], [item for _, items in split_up for item in items], source)[0]


def unlisted(original: Any, back: Any, losses: Iterable[Loss]) -> list[str]:
    """Pointers to members of the original that `back` lacks and no loss mentions."""
    listed = {loss.path for loss in losses}
    return [
        path
        for path in missing(original, back, "")
        if not any(path == at or path.startswith(f"{at}/") for at in listed)
    ]


def missing(original: Any, back: Any, path: str) -> Iterator[str]:
    """Pointers to members of the original that `back` lacks; a hub document may have got a wrapper."""
    if isinstance(original, dict) and isinstance(back, dict):
        if path == "" and "tool" in back and "tool" not in original:
            back = back["tool"]
        for key, value in original.items():
            place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key in back:
                yield from missing(value, back[key], place)
            else:
                yield place
    elif isinstance(original, list) and isinstance(back, list) and len(original) == len(back):
        for index, (one, other) in enumerate(zip(original, back, strict=True)):
            yield from missing(one, other, f"{path}/{index}")
    elif exactly(original) != exactly(back):
        yield path


def resolve(document: Any, path: str) -> Any:
    """The value at a pointer; raises LookupError if there is none."""
    for part in path.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document
