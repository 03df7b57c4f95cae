"""What the approval page says, in each of its states."""

from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from typing import TypeAlias

import msgspec

from toolhall.stores.approvals.base import Approval
from toolhall.transports.pages.differences import differences
from toolhall.transports.pages.html import alert, button, document, facts, form, paragraph, sentence, text
from toolhall.transports.pages.visible import marked

Words: TypeAlias = Callable[[str], str]  # what a form must bring, by its action

_TITLES = {
    "step_up": "Is it you?",
    "approval": "Run this call?",
    "second_person": "Let this call of another person run?",
}
_ASKS = {
    "step_up": "A program that acts for you called a tool that needs you to verify first. If you do, it may call"
    " tools of level 8 for the next 15 minutes.",
    "approval": "A program that acts for you wants to run exactly this, once. If it surprises you, deny it.",
    "second_person": "A program that acts for another person wants to run exactly this, once. If in doubt, deny it.",
}
_EFFECTS = {"reads": "reads only", "writes": "changes something", "destroys": "destroys something"}
_OVER = {
    "approved": ("Approved", "The program may run this call now: it has to ask for it once more."),
    "verified": ("You are verified", "The program may call tools of level 8 for 15 minutes: it has to ask once more."),
    "denied": ("Denied", "The call will not run. The same tool cannot be asked for again for a minute."),
    "consumed": ("Used already", "This approval let one call run, and is good for nothing more."),
    "expired": (
        "Too late",
        "Nobody decided in time, or the call was not repeated in time. It must be asked for anew.",
    ),
}


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows to whom."""

    approval: Approval
    before: Approval | None
    now: float
    person: str
    allowed: bool
    kinds: frozenset[str]
    passkey: str | None
    signed_in: bool


def sign_in(word: str, wrong: str = "") -> bytes:
    """For whoever is not known yet."""
    says = paragraph("A program waits for a decision. Sign in with your own key to see it.")
    return document("Sign in", alert(wrong) if wrong else "", says, key_form(word))


def refused(message: str, word: str | None = None, wrong: str = "", person: str = "") -> bytes:
    """For whom this is none of their business, or where there is nothing."""
    title = "Nothing to decide here" if word is None else "Not yours to decide"
    again = "" if word is None else paragraph("You are ", text(person), ". Sign in as somebody else:") + key_form(word)
    return document(title, alert(wrong) if wrong else "", paragraph(sentence(message)), again)


def over(approval: Approval) -> bytes:
    """What became of it, and what happens next."""
    verified = approval.state == "approved" and approval.how == "step_up"
    title, says = _OVER["verified" if verified else approval.state]
    by = f"Decided by {approval.approver}." if approval.approver else ""
    tool, caller = f"<code>{text(approval.tool)}</code>", f"<code>{text(approval.caller)}</code>"
    about = paragraph(f"It was about {tool} for the caller {caller}. ", text(by))
    return document(title, paragraph(says, kind="lead"), about, paragraph("You can close this page."))


def question(asked: Question, word: Words, wrong: str = "") -> bytes:
    """The call, and the forms to decide it."""
    approval = asked.approval
    return document(
        _TITLES[approval.how],
        alert(wrong) if wrong else "",
        paragraph(_ASKS[approval.how], kind="lead"),
        facts(_facts(asked)),
        _arguments(approval),
        _compared(asked),
        '<section class="decision" aria-labelledby="decision">\n<h2 id="decision">Your decision</h2>\n',
        *(_approving(asked, word) if asked.allowed else [_not_you(asked)]),
        form(word("deny"), "deny", button("Deny", "deny")),
        "</section>\n",
        form(word("sign_out"), "sign_out", button("Sign out", "plain")) if asked.signed_in else "",
    )


def _facts(asked: Question) -> list[tuple[str, str]]:
    approval = asked.approval
    name, _, version = approval.tool.rpartition("@")
    effect = _EFFECTS.get(approval.effect or "", "does not say what it changes")
    left = max(approval.expires - asked.now, 0)
    return [
        ("Tool", f"<strong>{text(name)}</strong> {text(version)}"),
        ("Level", f"{approval.level} of 10"),
        ("Effect", text(effect)),
        ("Caller", text(approval.caller)),
        ("For", text(approval.person)),
        *([] if approval.acting_for is None else [("User", text(approval.acting_for))]),
        ("Asked by", f"{text(approval.dialect)} at {_moment(approval.created)}"),
        ("Time left", f'<span data-left="{left:.0f}">{duration(left)}</span>'),
        ("You are", text(asked.person)),
    ]


def _arguments(approval: Approval) -> str:
    """All of it, as it will run."""
    shown = approval.shown.decode("utf-8", "replace")
    hidden = sum(mark for _, mark in marked(shown))
    warning = (
        paragraph(
            f"{hidden} of these characters cannot be seen, or look like others. They are written as ",
            "<mark>&lt;U+XXXX&gt;</mark>.",
            kind="warning",
        )
        if hidden
        else ""
    )
    digest = paragraph("SHA-256 of these bytes: <code>", approval.shown_sha256, "</code>", kind="digest")
    body = f'<pre id="arguments" tabindex="0" aria-label="Arguments"><code>{text(shown)}</code></pre>\n'
    return f"<h2>Arguments, exactly as they will run</h2>\n{warning}{body}{digest}"


def _compared(asked: Question) -> str:
    """What is new since the person last said yes to this tool for this caller."""
    before = asked.before
    if before is None:
        return paragraph("Nobody has approved a call of this tool by this caller before.", kind="compared")
    when = f"approved on {_moment(before.decided_at or before.created)}"
    found = differences(before.shown, asked.approval.shown)
    other = "" if before.tool == asked.approval.tool else f" That was version {before.tool.rpartition('@')[2]}."
    if before.acting_for != asked.approval.acting_for:
        other += f" That was for {'no user' if before.acting_for is None else f'the user {before.acting_for}'}."
    if not found:
        return paragraph(f"The arguments are those of the last call, {when}.", text(other), kind="compared")
    rows = "".join(
        f"<tr><th scope=row><code>{text(path)}</code></th><td>{_value(old)}</td><td>{_value(new)}</td></tr>\n"
        for path, old, new in found
    )
    head = '<tr><th scope="col">Where</th><th scope="col">Then</th><th scope="col">Now</th></tr>'
    title = f"<h2>What differs from the last call, {when}</h2>\n"
    table = f'<div class="wide" tabindex="0" role="region" aria-label="Differences"><table>\n<thead>{head}</thead>\n'
    return f"{title}{paragraph(text(other)) if other else ''}{table}<tbody>\n{rows}</tbody>\n</table></div>\n"


def _value(json: str | None) -> str:
    return "<em>nothing</em>" if json is None else f"<code>{text(json)}</code>"


def _approving(asked: Question, word: Words) -> list[str]:
    parts: list[str] = []
    if asked.passkey is not None:
        hidden = '<input type="hidden" name="credential" value="">'
        attributes = f' class="passkey" hidden data-get="{escape(asked.passkey)}"'
        parts.append(form(word("passkey"), "passkey", hidden, button("Approve with a passkey"), attributes=attributes))
        parts.append('<p class="alert" id="trouble" role="alert" hidden></p>\n')
    elif "passkey" in asked.kinds:
        parts.append(paragraph("To use your passkey, open this page by its name, such as <code>localhost</code>."))
    if "totp" in asked.kinds:
        code = (
            '<label for="code">Code of your authenticator</label>\n<input id="code" name="code" inputmode="numeric" '
            'autocomplete="one-time-code" pattern="[0-9 ]{6,8}" maxlength="8" required>\n'
        )
        parts.append(form(word("approve"), "approve", code, button("Approve with the code")))
    if not asked.kinds:
        command = f"toolhall factor add totp {asked.person} --url ..."  # the address is in the browser
        parts.append(
            paragraph(
                "To approve, you must prove that you are there, and you have nothing yet to do that with. Ask whoever"
                " runs this hall for it, or add it yourself: <code>",
                text(command),
                "</code>",
                kind="warning",
            )
        )
    elif "totp" not in asked.kinds:
        parts.append("<noscript><p>A passkey needs JavaScript. Allow it for this page.</p></noscript>\n")
    return parts


def _not_you(asked: Question) -> str:
    return paragraph(
        "This call is yours, and at level 10 another person has to approve it: somebody whose key has the scope"
        " <code>approve</code>. Send them the address of this page. You can only deny it, ",
        text(asked.person),
        ".",
        kind="warning",
    )


def key_form(word: str) -> str:
    """Where people sign in."""
    field = (
        '<label for="key">API key</label>\n<input id="key" name="key" type="password" autocomplete="off" '
        'spellcheck="false" maxlength="16384" required>\n'
    )
    return form(word, "sign_in", field, button("Sign in"))


def _moment(seconds: float) -> str:
    when = datetime.fromtimestamp(seconds, UTC)
    return f'<time datetime="{when.isoformat(timespec="seconds")}">{when:%Y-%m-%d %H:%M:%S} UTC</time>'


def duration(seconds: float) -> str:
    """As people say it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
