"""`toolhall upstream list`, `show`, `check`, `review`, `sync`, `off`, `on` and `remove`: servers of somebody else."""

import sys
from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.clients.management import ManagementClient, open_management
from toolhall.cli.errors import CommandError
from toolhall.cli.hall_options import ConfirmOptions, HallOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import (
    BOLD,
    DIM,
    GREEN,
    RED,
    YELLOW,
    note,
    pluralize,
    pretty_json,
    print_answer_json,
    print_rows,
    styled,
    visible,
)
from toolhall.cli.progress import show_spinner
from toolhall.cli.prompts import confirm
from toolhall.model.json import JsonObject

_REACH_SECONDS = 300.0  # a command may install itself first, and is asked in every revision
_DEFAULTS = HallOptions()
_CONFIRM_DEFAULTS = ConfirmOptions()
_COLUMNS = ("name", "state", "tools", "waiting", "from", "target")
_STYLES = {
    "ready": GREEN, "new": YELLOW, "connecting": YELLOW, "waiting": YELLOW, "away": RED, "refused": RED, "off": DIM,
}  # fmt: skip
_COLOURS = {"error": RED, "warning": YELLOW, "breaking": RED, "feature": YELLOW, "fix": GREEN}


def list_upstreams(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List the servers whose tools the hall offers, with their state and where each is described."""
    start_logging(None)
    with open_management(options) as client:
        found: list[JsonObject] = client.request("GET", "upstreams")["upstreams"]
        if options.json:
            print_answer_json(found)
        elif found:
            print_rows(_COLUMNS, map(_row, found), _STYLES)
        else:
            note("there are no upstreams; add one with 'toolhall add URL', or serve a file: 'toolhall serve mcp.json'")


def show(name: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Show an upstream: its state, its settings, and what it says of itself.

    Parameters
    ----------
    name
        Its name, as toolhall upstream list shows it.
    """
    start_logging(None)
    with open_management(options) as client:
        found = client.request("GET", "upstreams", name)
        if options.json:
            print_answer_json(found)
        else:
            print("\n".join(_details(found)))


def check(name: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Try everything that a call of an upstream needs, step by step; exit 1 if a step failed.

    Parameters
    ----------
    name
        Its name, as toolhall upstream list shows it.
    """
    start_logging(None)
    with open_management(options, write=True, seconds=_REACH_SECONDS) as client:
        with show_spinner(f"Checking {visible(name)}"):
            answer = client.request("POST", "upstreams", name, "check")
        steps: list[JsonObject] = answer["steps"]
        if options.json:
            print_answer_json(answer)
        else:
            rows = [
                (each["name"], f"{each['seconds']:.2f}", "ok" if each["ok"] else "failed", _outcome(each))
                for each in steps
            ]
            print_rows(("step", "seconds", "", ""), rows, {"ok": GREEN, "failed": RED})
        failed = [str(each["name"]) for each in steps if not each["ok"]]
    if failed == ["findings"]:
        raise CommandError(
            f"{visible(name)} can be used, but not everything that it lists is offered; see the findings"
        )
    if failed:
        raise CommandError(f"{visible(name)} cannot be used as it is; failed: {visible(', '.join(failed))}")


def review(name: str, /, *, options: Annotated[ConfirmOptions, Parameter(name="*")] = _CONFIRM_DEFAULTS) -> None:
    """Show all definitions of an upstream that wait for a look, and serve exactly these after one yes.

    Parameters
    ----------
    name
        Its name, as toolhall upstream list shows it.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        found = client.request("GET", "upstreams", name, "review")
        waiting: list[JsonObject] = found["tools"]
        if options.json and not (options.yes and waiting):
            print_answer_json(found)
            return
        if not options.json:
            note("\n".join(_review_lines(found)))
        if not waiting:
            note(f"nothing of {visible(name)} waits for a look")
            return
        confirm(f"Serve exactly {pluralize(len(waiting), 'definition')} as shown?", yes=options.yes)
        # With the digest of what was shown: the hall refuses if something else waits by now.
        answer = client.request("POST", "upstreams", name, "review", body={"digest": found["digest"]})
        if options.json:
            print_answer_json(answer)
        else:
            print("\n".join(visible(f"{each} is active") for each in answer["accepted"]))


def sync(name: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Fetch the lists of an upstream now.

    Parameters
    ----------
    name
        Its name, as toolhall upstream list shows it.
    """
    _change(name, "sync", options)


def off(name: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Switch an upstream off: its tools are not offered, and nothing is sent to it.

    Parameters
    ----------
    name
        Its name, as toolhall upstream list shows it.
    """
    _change(name, "off", options)


def on(name: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Switch an upstream on again.

    Parameters
    ----------
    name
        Its name, as toolhall upstream list shows it.
    """
    _change(name, "on", options)


def remove(name: str, /, *, options: Annotated[ConfirmOptions, Parameter(name="*")] = _CONFIRM_DEFAULTS) -> None:
    """Remove an upstream that was added, with its tools; one that a file names is taken out there.

    Parameters
    ----------
    name
        Its name, as toolhall upstream list shows it.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        found = client.request("GET", "upstreams", name)
        tools = pluralize(found["tools"] + found["waiting"], "tool")
        confirm(f"Remove {visible(name)} ({visible(found['target'])}) with its {tools}?", yes=options.yes)
        answer = client.request("DELETE", "upstreams", name)
        if options.json:
            print_answer_json(answer)
        else:
            print(f"{visible(answer['removed'])} is removed; secrets that it used stay: 'toolhall secret list'")


def _change(name: str, action: str, options: HallOptions) -> None:
    start_logging(None)
    with open_management(options, write=True, seconds=_REACH_SECONDS) as client:
        answer = _post(client, name, action)
        if options.json:
            print_answer_json(answer)
        else:
            print(state_line(answer))


def _post(client: ManagementClient, name: str, action: str) -> JsonObject:
    with show_spinner(f"Waiting for {visible(name)}"):
        return client.request("POST", "upstreams", name, action)


def state_line(upstream: JsonObject) -> str:
    """The name and the state of an upstream in one sentence."""
    reason = f": {upstream['reason']}" if upstream["reason"] else ""
    counts = f", {pluralize(upstream['tools'], 'tool')}" if upstream["tools"] else ""
    waiting = f", {upstream['waiting']} to look at: 'toolhall upstream review {upstream['name']}'"
    return visible(f"{upstream['name']} is {upstream['state']}{counts}{waiting if upstream['waiting'] else ''}{reason}")


def _row(upstream: JsonObject) -> tuple[str, ...]:
    source = upstream["where"] if upstream["source"] != "store" else f"added by {upstream['where']}"
    return (
        upstream["name"],
        upstream["state"],
        str(upstream["tools"]),
        str(upstream["waiting"] or ""),
        source or upstream["source"],
        f"{upstream['target']}: {upstream['reason']}" if upstream["reason"] else upstream["target"],
    )


def _details(upstream: JsonObject) -> Iterator[str]:
    yield styled(visible(upstream["name"]), BOLD, sys.stdout)
    server = upstream["server"]
    speaks = f"MCP {upstream['revision']} ({upstream['era']})" if upstream["revision"] else "not known yet"
    facts = {
        "state": f"{upstream['state']}{' since ' + upstream['since'] if upstream['since'] else ''}",
        "because": upstream["reason"],
        "target": upstream["target"],
        "described": f"{upstream['source']} {upstream['where']}".rstrip(),
        "server": f"{server['name']} {server['version']}".rstrip() if server else None,
        "speaks": speaks,
        "tools": f"{upstream['tools']} served, {upstream['waiting']} to look at",
        "last sync": upstream["lastSync"],
        "sessions": f"{upstream['sessions']}, processes {upstream['children']}",
    }
    for name, value in facts.items():
        if value is not None:
            yield visible(f"  {name:<11}{value}")
    yield "the settings that are not defaults, of secrets only the names:"
    yield pretty_json(upstream["settings"])


def _outcome(step: JsonObject) -> str:
    return f"{step['detail']}; {step['fix']}" if step["fix"] else str(step["detail"])


def _review_lines(found: JsonObject) -> Iterator[str]:
    """Every definition with its changes, findings and document, in which nothing is invisible."""
    for each in found["tools"]:
        was = f"served now: {each['was']}" if each["was"] else "new"
        refused = ", and calls are refused until somebody has looked" if each["was"] and each["refused"] else ""
        yield f"{styled(visible(each['id']), BOLD, sys.stderr)} ({visible(was)}{refused})"
        for change in each["changes"]:
            kind = styled(visible(change["kind"]), _COLOURS.get(change["kind"], RED), sys.stderr)
            yield f"  {kind}: " + visible(f"{change['path'] or '/'}: {change['reason']}")
        for finding in each["findings"]:
            severity = styled(visible(finding["severity"]), _COLOURS.get(finding["severity"], RED), sys.stderr)
            yield f"  {severity}: " + visible(f"{finding['path'] or '/'}: {finding['fix']} [{finding['rule']}]")
        yield "the document as it came, with what would not show written as <U+XXXX>:"
        yield pretty_json(each["document"])
    for each in found["withheld"]:
        yield visible(f"{each['tool']} is withheld: {each['reason']}")
