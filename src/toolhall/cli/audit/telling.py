"""How records are shown: one line each, with nothing hidden in it."""

import sys

from toolhall.cli.screen import DIM, GREEN, RED, YELLOW, styled, visible
from toolhall.cli.tools.telling import print_answer
from toolhall.model.json import JsonObject

_COLOURS = {"ok": GREEN, "tool_error": YELLOW, "asked": YELLOW, "intent": DIM}


def print_records(records: list[JsonObject], *, json: bool, lines: bool = False) -> None:
    """For people, or as JSON: one document, or one for each line where more will follow."""
    if json:
        for value in records if lines else (records,):
            print_answer(value)
        sys.stdout.flush()
        return
    for record in records:
        print(_line(record))
    sys.stdout.flush()


def _line(record: JsonObject) -> str:
    outcome = visible(record["outcome"])
    shown = styled(f"{outcome:<12}", _COLOURS.get(outcome, RED), sys.stdout)
    who = record["caller"] if "person" not in record else f"{record['caller']} ({record['person']})"
    took = f"{record.get('durationUs', 0) / 1_000:.1f} ms"
    parts = (f"{who:<16}", shown, f"{record['tool']:<32}", f"{took:>10}", record["dialect"], _verdict(record))
    return "  ".join([visible(record["at"]), *(part if part is shown else visible(part) for part in parts)]).rstrip()


def _verdict(record: JsonObject) -> str:
    said = [f"level {record['level']}" if "level" in record else "", record.get("verdict", "")]
    said += [f"by {record['grant']}" if "grant" in record else "", record.get("reason", "")]
    answered = "asked" if record["outcome"] == "NeedsVerification" else "approved"
    said += [f"{answered} in {record['approval']}" if "approval" in record else ""]
    return " ".join(filter(None, said))
