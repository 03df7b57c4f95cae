"""What differs between two calls of the same tool, place by place."""

from collections.abc import Iterator

import msgspec

from toolhall.model.json import Json

NOTHING = object()


def differences(before: bytes, now: bytes) -> list[tuple[str, str | None, str | None]]:
    """Each place with what was there and what is there, as JSON; None where there is nothing."""
    found = _differences("", msgspec.json.decode(before), msgspec.json.decode(now))
    return [(path or "/", _written(old), _written(new)) for path, old, new in found]


def _differences(path: str, before: Json, now: Json) -> Iterator[tuple[str, Json, Json]]:
    match before, now:
        case dict(), dict():
            keys = {**before, **now}
            for key in keys:
                below = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
                yield from _differences(below, before.get(key, NOTHING), now.get(key, NOTHING))
        case list(), list() if len(before) == len(now):
            for number, (old, new) in enumerate(zip(before, now, strict=True)):
                yield from _differences(f"{path}/{number}", old, new)
        case _ if type(before) is not type(now) or before != now:
            yield path, before, now
        case _:
            return


def _written(value: Json) -> str | None:
    return None if value is NOTHING else msgspec.json.encode(value).decode()
