"""Prints MCP content blocks for people: `print_blocks`; texts that are JSON, and values, over several lines."""

import sys
from collections.abc import Iterable

import msgspec

from toolhall.cli.output import pretty_json, visible
from toolhall.model.json import Json, JsonObject


def print_blocks(blocks: Iterable[JsonObject]) -> None:
    """Print texts, with invisible characters made visible, and a line about each other block."""
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                print_text(text)
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text), **rest}}:
                print(visible(f"[resource {uri} {rest.get('mimeType') or ''}".rstrip() + "]"))
                print_text(text)
            case {"type": str(kind), **rest}:
                about = rest.get("mimeType") or rest.get("uri") or ""
                size = f", {len(rest['data'])} characters of base64" if isinstance(rest.get("data"), str) else ""
                print(visible(f"[{kind} {about}{size}]"))
            case _:
                continue


def print_text(text: str) -> None:
    """Print a text; one that is the JSON of an object or a list over several lines."""
    value = _parse_json_text(text)
    if value is msgspec.UNSET:
        print(visible(text, keep="\n\t"))
    else:
        print_value(value)


def print_value(value: Json) -> None:
    """Print a value as JSON over several lines, highlighted at a terminal."""
    if sys.stdout.isatty():
        from toolhall.cli import rich_output  # lazy: rich

        rich_output.print_value(value)
    else:
        print(pretty_json(value))


def _parse_json_text(text: str) -> Json:
    """The object or list that a text is the JSON of; UNSET for any other text."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return msgspec.UNSET
    return value if isinstance(value, dict | list) else msgspec.UNSET
