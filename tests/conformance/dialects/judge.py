"""What each dialect's replies must look like, by the schemas that lie beside the vectors."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

VECTORS = Path(__file__).parents[2] / "vectors"
ANY = "*"  # stands for whatever differs from one run to the next


def vectors(dialect: str) -> list[dict[str, Any]]:
    """The examples of a dialect's messages, in the order in which they are sent."""
    found: list[dict[str, Any]] = json.loads((VECTORS / dialect / "messages.json").read_text())
    return found


@cache
def _schema(dialect: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((VECTORS / dialect / "messages_schema.json").read_text())
    return found


@cache
def _judge(dialect: str, part: str | None) -> jsonschema.Draft202012Validator:
    schema = _schema(dialect)
    return jsonschema.Draft202012Validator({**schema, "$ref": f"#/$defs/{part}"} if part else schema)


def check(dialect: str, reply: Any) -> None:
    """The reply is one that machine or hub may send."""
    _judge(dialect, None).validate(reply)


def check_oxp(status: int, reply: Any, ran: str = "call") -> None:
    """The body is one that OXP may send with this status."""
    part = {200: ran, 422: "invalid"}.get(status, "refused")
    _judge("oxp", part).validate(reply)


def like(expected: Any, found: Any) -> bool:
    """Whether two values are equal, but for what is masked in the expected one."""
    match expected:
        case str() if expected == ANY:
            return True
        case dict():
            return (
                isinstance(found, dict)
                and expected.keys() == found.keys()
                and all(like(part, found[key]) for key, part in expected.items())
            )
        case list():
            return isinstance(found, list) and len(expected) == len(found) and all(map(like, expected, found))
        case _:
            return bool(expected == found and isinstance(expected, bool) == isinstance(found, bool))
