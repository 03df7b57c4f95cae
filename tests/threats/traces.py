"""Looks for a value in bytes, in every form in which it could stand there."""

import base64
import json

from tests.unit.redaction.secret_encodings import EVERY


def encodings_of(value: str) -> dict[str, bytes]:
    """What to look for, by the form; letters count as small ones, because some forms do not tell them apart."""
    found = {form: write(value) for form, write in EVERY.items()}
    found |= {f"{form}, in json": json.dumps(text)[1:-1] for form, text in found.items()}
    found |= {f"base64 from {start}": _inner_base64(value.encode(), start) for start in range(3)}
    third = len(value) // 3
    found["the middle of it"] = value[third : 2 * third]
    return {form: text.lower().encode() for form, text in found.items()}


def find_encodings(value: str, places: dict[str, bytes]) -> dict[str, set[str]]:
    """In which places a value is, and in which forms."""
    wanted = encodings_of(value)
    found = {
        place: {form for form, text in wanted.items() if text in content.lower()} for place, content in places.items()
    }
    return {place: forms for place, forms in found.items() if forms}


def _inner_base64(value: bytes, start: int) -> str:
    """The letters that are the same whatever stands before and after it."""
    whole = base64.b64encode(bytes(start) + value).decode()
    return whole[4 if start else 0 : len(whole) - 4]
