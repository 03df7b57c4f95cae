"""HTML views of the approval and account-link pages, in each of their states."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html import escape
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from toolhall.model.json import Json
from toolhall.oauth.broker import LinkConsent
from toolhall.stores.accounts import AccountLink
from toolhall.stores.approvals import Approval
from toolhall.web.html import (
    alert,
    as_sentence,
    button,
    definition_list,
    escape_text,
    form,
    mark_hidden,
    paragraph,
    render_page,
)

MISSING = object()


def json_differences(before: bytes, now: bytes) -> list[tuple[str, str | None, str | None]]:
    """Each place with what was there and what is there, as JSON; None where there is nothing."""
    found = _walk("", msgspec.json.decode(before), msgspec.json.decode(now))
    return [(path or "/", _encode_value(old), _encode_value(new)) for path, old, new in found]


def _walk(path: str, before: Json, now: Json) -> Iterator[tuple[str, Json, Json]]:
    match before, now:
        case dict(), dict():
            keys = {**before, **now}
            for key in keys:
                below = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
                yield from _walk(below, before.get(key, MISSING), now.get(key, MISSING))
        case list(), list() if len(before) == len(now):
            for number, (old, new) in enumerate(zip(before, now, strict=True)):
                yield from _walk(f"{path}/{number}", old, new)
        case _ if type(before) is not type(now) or before != now:
            yield path, before, now
        case _:
            return


def _encode_value(value: Json) -> str | None:
    return None if value is MISSING else msgspec.json.encode(value).decode()


CsrfTokens: TypeAlias = Callable[[str], str]  # what a form must bring, by its action
_TITLES = {
    "step_up": "Is it you?",
    "approval": "Run this call?",
    "second_person": "Let this call of another person run?",
}
_INTRODUCTIONS = {
    "step_up": "A program that acts for you called a tool that needs you to verify first. If you do, it may call"
    " tools of level 8 for the next 15 minutes.",
    "approval": "A program that acts for you wants to run exactly this, once. If it surprises you, deny it.",
    "second_person": "A program that acts for another person wants to run exactly this, once. If in doubt, deny it.",
}
_EFFECTS = {"reads": "reads only", "writes": "changes something", "destroys": "destroys something"}
_APPROVAL_ENDINGS = {
    "approved": ("Approved", "The program may run this call now: it has to ask for it once more."),
    "verified": ("You are verified", "The program may call tools of level 8 for 15 minutes: it has to ask once more."),
    "denied": ("Denied", "The call will not run. The same tool cannot be asked for again for a minute."),
    "consumed": ("Used already", "This approval let one call run, and is good for nothing more."),
    "expired": (
        "Too late",
        "Nobody decided in time, or the call was not repeated in time. It must be asked for anew.",
    ),
}


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows to whom."""

    approval: Approval
    before: Approval | None
    now: float
    person: str
    allowed: bool
    kinds: frozenset[str]
    passkey: str | None
    signed_in: bool


def approval_sign_in(csrf_token: str, problem: str = "") -> bytes:
    """For whoever is not known yet."""
    says = paragraph("A program waits for a decision. Sign in with your own key to see it.")
    return render_page("Sign in", alert(problem) if problem else "", says, sign_in_form(csrf_token))


def approval_refused(message: str, csrf_token: str | None = None, problem: str = "", person: str = "") -> bytes:
    """For whom this is none of their business, or where there is nothing."""
    title = "Nothing to decide here" if csrf_token is None else "Not yours to decide"
    again = (
        ""
        if csrf_token is None
        else paragraph("You are ", escape_text(person), ". Sign in as somebody else:") + sign_in_form(csrf_token)
    )
    return render_page(title, alert(problem) if problem else "", paragraph(as_sentence(message)), again)


def approval_closed(approval: Approval) -> bytes:
    """What became of it, and what happens next."""
    verified = approval.state == "approved" and approval.how == "step_up"
    title, says = _APPROVAL_ENDINGS["verified" if verified else approval.state]
    by = f"Decided by {approval.approver}." if approval.approver else ""
    tool, caller = f"<code>{escape_text(approval.tool)}</code>", f"<code>{escape_text(approval.caller)}</code>"
    about = paragraph(f"It was about {tool} for the caller {caller}. ", escape_text(by))
    return render_page(title, paragraph(says, kind="lead"), about, paragraph("You can close this page."))


def approval_form(view: ApprovalView, csrf_token: CsrfTokens, problem: str = "") -> bytes:
    """The call, and the forms to decide it."""
    approval = view.approval
    return render_page(
        _TITLES[approval.how],
        alert(problem) if problem else "",
        paragraph(_INTRODUCTIONS[approval.how], kind="lead"),
        definition_list(_approval_facts(view)),
        _arguments(approval),
        _comparison(view),
        '<section class="decision" aria-labelledby="decision">\n<h2 id="decision">Your decision</h2>\n',
        *(_approve_forms(view, csrf_token) if view.allowed else [_second_person_notice(view)]),
        form(csrf_token("deny"), "deny", button("Deny", "deny")),
        "</section>\n",
        form(csrf_token("sign_out"), "sign_out", button("Sign out", "plain")) if view.signed_in else "",
    )


def _approval_facts(view: ApprovalView) -> list[tuple[str, str]]:
    approval = view.approval
    name, _, version = approval.tool.rpartition("@")
    effect = _EFFECTS.get(approval.effect or "", "does not say what it changes")
    left = max(approval.expires - view.now, 0)
    return [
        ("Tool", f"<strong>{escape_text(name)}</strong> {escape_text(version)}"),
        ("Level", f"{approval.level} of 10"),
        ("Effect", escape_text(effect)),
        ("Caller", escape_text(approval.caller)),
        ("For", escape_text(approval.person)),
        *([] if approval.acting_for is None else [("User", escape_text(approval.acting_for))]),
        ("Asked by", f"{escape_text(approval.dialect)} at {_time_element(approval.created)}"),
        ("Time left", f'<span data-left="{left:.0f}">{format_duration(left)}</span>'),
        ("You are", escape_text(view.person)),
    ]


def _arguments(approval: Approval) -> str:
    """All of it, as it will run."""
    shown = approval.shown.decode("utf-8", "replace")
    hidden = sum(mark for _, mark in mark_hidden(shown))
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
    body = f'<pre id="arguments" tabindex="0" aria-label="Arguments"><code>{escape_text(shown)}</code></pre>\n'
    return f"<h2>Arguments, exactly as they will run</h2>\n{warning}{body}{digest}"


def _comparison(view: ApprovalView) -> str:
    """What is new since the person last said yes to this tool for this caller."""
    before = view.before
    if before is None:
        return paragraph("Nobody has approved a call of this tool by this caller before.", kind="compared")
    when = f"approved on {_time_element(before.decided_at or before.created)}"
    found = json_differences(before.shown, view.approval.shown)
    other = "" if before.tool == view.approval.tool else f" That was version {before.tool.rpartition('@')[2]}."
    if before.acting_for != view.approval.acting_for:
        other += f" That was for {'no user' if before.acting_for is None else f'the user {before.acting_for}'}."
    if not found:
        return paragraph(f"The arguments are those of the last call, {when}.", escape_text(other), kind="compared")
    rows = "".join(
        f"<tr><th scope=row><code>{escape_text(path)}</code></th><td>{_value_cell(old)}</td><td>{_value_cell(new)}</td></tr>\n"
        for path, old, new in found
    )
    head = '<tr><th scope="col">Where</th><th scope="col">Then</th><th scope="col">Now</th></tr>'
    title = f"<h2>What differs from the last call, {when}</h2>\n"
    table = f'<div class="wide" tabindex="0" role="region" aria-label="Differences"><table>\n<thead>{head}</thead>\n'
    return f"{title}{paragraph(escape_text(other)) if other else ''}{table}<tbody>\n{rows}</tbody>\n</table></div>\n"


def _value_cell(json: str | None) -> str:
    return "<em>nothing</em>" if json is None else f"<code>{escape_text(json)}</code>"


def _approve_forms(view: ApprovalView, csrf_token: CsrfTokens) -> list[str]:
    parts: list[str] = []
    if view.passkey is not None:
        hidden = '<input type="hidden" name="credential" value="">'
        attributes = f' class="passkey" hidden data-get="{escape(view.passkey)}"'
        parts.append(
            form(csrf_token("passkey"), "passkey", hidden, button("Approve with a passkey"), attributes=attributes)
        )
        parts.append('<p class="alert" id="trouble" role="alert" hidden></p>\n')
    elif "passkey" in view.kinds:
        parts.append(paragraph("To use your passkey, open this page by its name, such as <code>localhost</code>."))
    if "totp" in view.kinds:
        code = (
            '<label for="code">Code of your authenticator</label>\n<input id="code" name="code" inputmode="numeric" '
            'autocomplete="one-time-code" pattern="[0-9 ]{6,8}" maxlength="8" required>\n'
        )
        parts.append(form(csrf_token("approve"), "approve", code, button("Approve with the code")))
    if not view.kinds:
        command = f"toolhall factor add totp {view.person} --url ..."  # the address is in the browser
        parts.append(
            paragraph(
                "To approve, you must prove that you are there, and you have nothing yet to do that with. Ask whoever"
                " runs this hall for it, or add it yourself: <code>",
                escape_text(command),
                "</code>",
                kind="warning",
            )
        )
    elif "totp" not in view.kinds:
        parts.append("<noscript><p>A passkey needs JavaScript. Allow it for this page.</p></noscript>\n")
    return parts


def _second_person_notice(view: ApprovalView) -> str:
    return paragraph(
        "This call is yours, and at level 10 another person has to approve it: somebody whose key has the scope"
        " <code>approve</code>. Send them the address of this page. You can only deny it, ",
        escape_text(view.person),
        ".",
        kind="warning",
    )


def sign_in_form(csrf_token: str) -> str:
    """Where people sign in."""
    field = (
        '<label for="key">API key</label>\n<input id="key" name="key" type="password" autocomplete="off" '
        'spellcheck="false" maxlength="16384" required>\n'
    )
    return form(csrf_token, "sign_in", field, button("Sign in"))


def _time_element(seconds: float) -> str:
    when = datetime.fromtimestamp(seconds, UTC)
    return f'<time datetime="{when.isoformat(timespec="seconds")}">{when:%Y-%m-%d %H:%M:%S} UTC</time>'


def format_duration(seconds: float) -> str:
    """As people say it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LINK_ENDINGS = {
    "pending": ("Nothing to do here", "This account is linked from the terminal where you asked for it."),
    "claimed": ("One moment", "The provider has answered, and the account is being linked. Look again in a moment."),
    "completed": ("The account is linked", "The program can use it now: it has to ask for it once more."),
    "failed": ("The account was not linked", "Nothing was linked. Ask for it once more to get a new link."),
}
_CLOSE_PAGE = "You can close this page."


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows to whom."""

    consent: LinkConsent
    now: float
    person: str
    signed_in: bool


def link_sign_in(csrf_token: str, problem: str = "") -> bytes:
    """For whoever is not known yet."""
    says = paragraph("A program asks for an account. Sign in with your own key to see whether it asks you.")
    return render_page("Sign in", _problem_alert(problem), says, sign_in_form(csrf_token))


def link_not_yours(csrf_token: str, person: str, problem: str = "") -> bytes:
    """Says nothing of who it is for, or what it is about."""
    again = paragraph("You are ", escape_text(person), ". Sign in as somebody else:")
    return render_page(
        "Not for you",
        _problem_alert(problem),
        paragraph("This link is for another person."),
        again,
        sign_in_form(csrf_token),
    )


def link_not_found() -> bytes:
    """There is none, or nobody used it in time."""
    says = "There is no such link, or it is too old. Ask for it once more to get a new one."
    return render_page("This link leads nowhere any more", paragraph(says))


def link_failed(message: str) -> bytes:
    """Why nothing was linked, in words of our own."""
    return render_page("The account was not linked", alert(message), paragraph(_CLOSE_PAGE))


def link_closed(link: AccountLink) -> bytes:
    """What became of it, or that no browser is needed for it."""
    title, says = _LINK_ENDINGS[link.state]
    why = paragraph(as_sentence(link.reason)) if link.reason else ""
    return render_page(title, paragraph(says, kind="lead"), why, _link_about(link), paragraph(_CLOSE_PAGE))


def link_form(view: LinkView, csrf_token: CsrfTokens, problem: str = "") -> bytes:
    """What is asked for, and the one button."""
    name = view.consent.link.provider
    provider = escape_text(name)
    lead = (
        f"A tool wants to use your account at {provider}. If you go on, {provider} asks you to sign in there and to"
        " agree. The tool gets the access below, and never your password. If this surprises you, close the page."
    )
    return render_page(
        f"Link your account at {name}?",
        _problem_alert(problem),
        paragraph(lead, kind="lead"),
        definition_list(_link_facts(view)),
        _loopback_warning(view),
        form(csrf_token("connect"), "connect", button(f"Go on to {name}")),
        form(csrf_token("sign_out"), "sign_out", button("Sign out", "plain")) if view.signed_in else "",
    )


def _link_facts(view: LinkView) -> list[tuple[str, str]]:
    link = view.consent.link
    left = max(link.expires - view.now, 0)
    scopes = "".join(f"<li><code>{escape_text(scope)}</code></li>" for scope in view.consent.scopes)
    return [
        ("Provider", f"<strong>{escape_text(link.provider)}</strong> ({escape_text(view.consent.provider_host)})"),
        ("Access", f"<ul>{scopes}</ul>" if scopes else "whatever the provider gives without being asked for more"),
        ("Tool", escape_text(link.tool or "any tool that you call and that needs it")),
        ("Account of", escape_text(link.user)),
        ("Asked by", escape_text(link.caller)),
        ("Leads back to", f"<code>{escape_text(view.consent.redirect_host)}</code>"),
        ("Time left", f'<span data-left="{left:.0f}">{format_duration(left)}</span>'),
        ("You are", escape_text(view.person)),
    ]


def _loopback_warning(view: LinkView) -> str:
    """Whatever listens on this machine gets what the provider sends back."""
    if urlsplit(f"//{view.consent.redirect_host}").hostname not in _LOOPBACK:
        return ""
    return paragraph(
        "The provider will send your browser back to a program on the computer that you sit at, <code>",
        escape_text(view.consent.redirect_host),
        "</code>. Go on only if you run this hall there yourself.",
        kind="warning",
    )


def _link_about(link: AccountLink) -> str:
    tool = f" for the tool <code>{escape_text(link.tool)}</code>" if link.tool else ""
    return paragraph(f"It was about your account at <code>{escape_text(link.provider)}</code>{tool}.")


def _problem_alert(message: str) -> str:
    return alert(message) if message else ""
