"""Differences of JSON documents, as the approval page and the API show them against the last call that was approved."""

from collections.abc import Iterator

import msgspec

from toolhall.model.json import Json

_MISSING = object()


def json_differences(before: bytes, now: bytes) -> list[tuple[str, str | None, str | None]]:
    """Return (JSON pointer, old value, new value) of each difference, values as JSON; None where there is none.

    Objects are compared by member, arrays of equal length by item, everything else as a whole. JsonChange of
    `model.json` is no substitute: it makes patches, keeps digests instead of the old values, and matches items by name.
    """
    differences = _walk("", msgspec.json.decode(before), msgspec.json.decode(now))
    return [(path or "/", _encode_value(old), _encode_value(new)) for path, old, new in differences]


def _walk(path: str, before: Json, now: Json) -> Iterator[tuple[str, Json, Json]]:
    match before, now:
        case dict(), dict():
            keys = {**before, **now}
            for key in keys:
                below = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
                yield from _walk(below, before.get(key, _MISSING), now.get(key, _MISSING))
        case list(), list() if len(before) == len(now):
            for number, (old, new) in enumerate(zip(before, now, strict=True)):
                yield from _walk(f"{path}/{number}", old, new)
        case _ if type(before) is not type(now) or before != now:
            yield path, before, now
        case _:
            return


def _encode_value(value: Json) -> str | None:
    return None if value is _MISSING else msgspec.json.encode(value).decode()
