"""`toolhall factor add`, `list` and `remove`: authenticators and passkeys; a secret is shown once."""

import io
import sys
from typing import Annotated, Literal

import segno
from cyclopts import Parameter

from toolhall.cli.clients.management import ManagementClient, ManagementRefused, open_management
from toolhall.cli.hall_options import HallOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import note, print_answer_json, print_rows, visible
from toolhall.cli.prompts import prompt_code
from toolhall.model.json import JsonObject

_DEFAULTS = HallOptions()
_COLUMNS = ("id", "person", "kind", "added", "last used", "by")
_MAX_ATTEMPTS = 3
_WHITE_ON_BLACK, _RESET = "\x1b[97;40m", "\x1b[0m"
_WRONG_CODE_STATUS = 403


def add(
    kind: Literal["totp", "passkey"],
    person: str,
    /,
    *,
    options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Add an authenticator app (totp), whose first code is asked for, or a passkey, by a link that works once.

    Parameters
    ----------
    kind
        totp or passkey.
    person
        Whose it is: local for the person at this machine, else the owner of a key.
    """
    start_logging(None)
    with open_management(options, write=True, create=True) as client:
        made = client.request(
            "POST", "factors", body={"kind": kind, "person": person, **_prove_existing_factor(client, person, options)}
        )
        if kind == "passkey":
            _print_invitation(made, options)
        else:
            _confirm_first_code(client, made, options)


def list_factors(*, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """List the authenticators, passkeys and open invitations of everybody."""
    start_logging(None)
    with open_management(options) as client:
        found = client.request("GET", "factors")["factors"]
        if options.json:
            print_answer_json(found)
        elif found:
            print_rows(_COLUMNS, [_row(each) for each in found])
        else:
            note("nobody can approve a call by a page yet; add a factor with 'toolhall factor add totp PERSON'")


def remove(factor: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Remove an authenticator, a passkey or an invitation.

    Parameters
    ----------
    factor
        Its id, as toolhall factor list shows it.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        known = [each for each in client.request("GET", "factors")["factors"] if each["id"] == factor]
        proof = (
            _prove_existing_factor(client, known[0]["person"], options)
            if known and known[0]["kind"] != "invitation"
            else {}
        )
        answer = client.request("DELETE", "factors", factor, body=proof)
    if options.json:
        print_answer_json(answer)
    else:
        print(visible(f"{answer['removed']} is removed"))


def _prove_existing_factor(client: ManagementClient, person: str, options: HallOptions) -> JsonObject:
    """A code of an existing factor, which a running hall demands; the owner of a data folder needs none."""
    if not options.running:
        return {}
    known = client.request("GET", "factors", query={"person": person})["factors"]
    if not any(each["kind"] != "invitation" for each in known):
        return {}
    return {"code": prompt_code(f"A code of the authenticator that {visible(person)} has now")}


def _print_invitation(made: JsonObject, options: HallOptions) -> None:
    if options.json:
        print_answer_json(
            {"person": made["person"], "kind": made["kind"], "url": made["url"], "expires": made["expiresAt"]}
        )
        return
    print(visible(made["url"]), flush=True)
    note(visible(f"Whoever opens this link first can add one passkey for {made['person']}, until {made['expiresAt']}."))
    if not options.running:
        note("The link works while 'toolhall serve' runs on this folder.")


def _confirm_first_code(client: ManagementClient, made: JsonObject, options: HallOptions) -> None:
    """Show the secret and confirm the factor by its first code; three attempts."""
    print_line = note if options.json else _print_flushed
    if not options.json and sys.stdout.isatty():
        _show_qr_code(made["uri"])
    print_line(visible(made["uri"]))
    print_line(visible(made["secret"]))
    note("Put one of these into your authenticator app; they are not shown again. Then type its first code.")
    for left in reversed(range(_MAX_ATTEMPTS)):
        body = {"enrolment": made["enrolment"], "code": prompt_code("First code")}
        try:
            factor = client.request("POST", "factors", "confirm", body=body)
        except ManagementRefused as refused:
            if refused.status != _WRONG_CODE_STATUS or not left:
                raise
            note(visible(refused.message))
        else:
            _print_added(factor, made, options)
            return


def _show_qr_code(uri: str) -> None:
    """Print the URI as a QR code, dark on light whatever the terminal's colours are."""
    drawn = io.StringIO()
    segno.make(uri, error="l").terminal(drawn, compact=True, border=2)
    for line in drawn.getvalue().splitlines():
        _print_flushed(f"{_WHITE_ON_BLACK}{line}{_RESET}")


def _print_added(factor: JsonObject, made: JsonObject, options: HallOptions) -> None:
    if options.json:
        print_answer_json({**factor, "uri": made["uri"], "secret": made["secret"]})
    else:
        note(visible(f"{factor['person']} can approve calls with it from now on; its id is {factor['id']}."))


def _print_flushed(line: str) -> None:
    print(line, flush=True)


def _row(factor: JsonObject) -> tuple[str, ...]:
    kind = factor["kind"] if factor["expiresAt"] is None else f"{factor['kind']} until {factor['expiresAt']}"
    return factor["id"], factor["person"], kind, factor["createdAt"], factor["usedAt"] or "never", factor["by"]
