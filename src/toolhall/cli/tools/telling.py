"""What is said of registered tools: everything is shown as it is, with nothing hidden in it."""

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from toolhall.cli.progress import counted
from toolhall.cli.screen import BOLD, RED, YELLOW, pretty, print_json, styled, visible
from toolhall.model.json import Json, JsonObject

_COLOURS = {"error": RED, "warning": YELLOW}


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; rich takes longer to import than most commands, so only those wait for it that draw one."""
    draw: Callable[[Sequence[str], Iterable[Sequence[str]]], None]
    draw = importlib.import_module("toolhall.cli.tools.drawn").print_rows
    draw(headings, rows)


def print_answer(value: Json) -> None:
    """With --json: what the hall answered; at a terminal everything that could hide or steer is a JSON escape."""
    if sys.stdout.isatty():
        print(json.dumps(value).replace("\x7f", "\\u007f"))
    else:
        print_json(value)


def one_line(tool: JsonObject) -> str:
    """A tool and its state."""
    end = ending(tool)
    return visible(f"{tool['id']} is {tool['state']}{f' ({end})' if end else ''}")


def ending(tool: JsonObject) -> str:
    """What is said of a tool's end, if anything is."""
    if tool.get("deprecatedAt") is None:
        return ""
    day = f", gone from {tool['sunset']} on" if tool["sunset"] else ""
    return f"deprecated{day}{', use ' + tool['successor'] if tool['successor'] else ''}"


def whole(tool: JsonObject, stream: TextIO) -> Iterator[str]:
    """Everything about a tool: facts, findings, and its document as it came; in colour, where the stream has it."""
    yield styled(visible(tool["id"]), BOLD, stream)
    facts = {
        "published as": tool["name"],
        "title": tool["title"] or "not stated",
        "state": one_line(tool).partition(" is ")[2],
        "registered": f"{tool['registeredAt']} by {tool['by']}, from {tool['origin']} {tool['originDetail']}".rstrip(),
        "changed": tool["changedAt"],
        "versions": ", ".join(f"{each['id']} ({each['state']})" for each in tool["versions"]),
        "document": f"{tool['dialect']}, {tool['digests']['document']}",
    }
    for name, value in facts.items():
        yield visible(f"  {name:<14}{value}")
    findings = tool["findings"]
    yield f"{counted(len(findings), 'finding')} in the document{':' if findings else ''}"
    for each in findings:
        severity = styled(visible(each["severity"]), _COLOURS.get(each["severity"], RED), stream)
        yield f"  {severity}: " + visible(f"{each['path'] or '/'}: {each['fix']} [{each['rule']}]")
    yield "the document as it came, with what would not show written as <U+XXXX>:"
    yield pretty(tool["document"])
