"""What is said of registered tools: everything is shown as it is, with nothing hidden in it."""

import json
import sys
from collections.abc import Iterator
from typing import TextIO

from toolhall.cli.progress import counted
from toolhall.cli.screen import BOLD, RED, YELLOW, pretty, print_json, styled, visible
from toolhall.model.json import Json, JsonObject

_COLOURS = {"error": RED, "warning": YELLOW}


def print_answer(value: Json) -> None:
    """With --json: what the hall answered; at a terminal everything that could hide or steer is a JSON escape."""
    if sys.stdout.isatty():
        print(json.dumps(value).replace("\x7f", "\\u007f"))
    else:
        print_json(value)


def state_of(tool: JsonObject, *, running: bool) -> str:
    """Its state; of a hall that runs also whether that state is all that it takes to be served."""
    # A folder alone does not hold the operator's own code, so nothing is known there of what will be served.
    idle = running and tool["state"] == "active" and tool.get("served") is False
    return f"{tool['state']}, not served" if idle else str(tool["state"])


def one_line(tool: JsonObject, *, running: bool) -> str:
    """A tool and its state."""
    return visible(f"{tool['id']} is {_standing(tool, running=running)}")


def _standing(tool: JsonObject, *, running: bool) -> str:
    state, end = state_of(tool, running=running), ending(tool)
    return f"{state} ({end})" if end else state


def ending(tool: JsonObject) -> str:
    """What is said of a tool's end, if anything is."""
    if tool.get("deprecatedAt") is None:
        return ""
    day = f", gone from {tool['sunset']} on" if tool["sunset"] else ""
    return f"deprecated{day}{', use ' + tool['successor'] if tool['successor'] else ''}"


def whole(tool: JsonObject, stream: TextIO, *, running: bool) -> Iterator[str]:
    """Everything about a tool: facts, findings, and its document as it came; in colour, where the stream has it."""
    yield styled(visible(tool["id"]), BOLD, stream)
    facts = {
        "published as": tool["name"],
        "title": tool["title"] or "not stated",
        "state": _standing(tool, running=running),
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
