"""Views of the pages: each function returns the `Page` for one state of an approval, an account link or an invitation.

The markup is in `templates/`. Here are the texts that depend on the state, and the values that the templates print.
"""

from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from toolhall.model.call_records import CONSOLE_SUFFIX
from toolhall.oauth.broker import LinkConsent
from toolhall.oauth.providers import provider_display_name
from toolhall.pipeline.approval_differences import json_differences
from toolhall.stores.accounts import AccountLink
from toolhall.stores.approvals import Approval
from toolhall.web.html import Page, mark_hidden, name_hidden

CsrfTokens: TypeAlias = Callable[[str], str]  # from the action of a form to its CSRF token
MAX_NAMED_CHARACTERS = 20
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LINK_GONE_TITLE = "This link leads nowhere any more"
_CLOSE_PAGE = "You can close this page."
_APPROVAL_TITLES = {
    "step_up": "Is it you?",
    "approval": "Run this call?",
    "second_person": "Let this call of another person run?",
}
_APPROVAL_INTRODUCTIONS = {
    "step_up": "A program that acts for you called a tool that needs you to verify first. If you do, it may call"
    " tools of level 8 for the next 15 minutes.",
    "approval": "A program that acts for you wants to run exactly this, once. If it surprises you, deny it.",
    "second_person": "A program that acts for another person wants to run exactly this, once. If in doubt, deny it.",
}
_EFFECTS = {"reads": "reads only", "writes": "changes something", "destroys": "destroys something"}
_UNKNOWN_EFFECT = "does not say what it changes"
# As people know them; a revision follows the name.
_DIALECT_NAMES = {"mcp": "MCP", "openapi": "REST", "oxp": "OXP", "hub": "Hub", "machine": "Machine Context"}
_DIALECT_NAMES["page"] = "the page of the hall"
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
_LINK_ENDINGS = {
    "pending": ("Nothing to do here", "This account is linked from the terminal where you asked for it."),
    "claimed": ("One moment", "The provider has answered, and the account is being linked. Look again in a moment."),
    "completed": ("The account is linked", "The program can use it now: it has to ask for it once more."),
    "failed": ("The account was not linked", "Nothing was linked. Ask for it once more to get a new link."),
}


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A pending approval as one person sees it."""

    approval: Approval
    before: Approval | None  # the last call of this tool by this caller that was approved
    now: float
    person: str
    allowed: bool  # to approve; anybody who sees the page may deny
    kinds: frozenset[str]  # of the person's second factors
    passkey: str | None  # WebAuthn options as JSON; None without a passkey that works at this address
    signed_in: bool  # with a key, so that signing out makes sense
    may_invite: bool = False  # to make a link that adds a passkey


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """A pending account link as its person sees it."""

    consent: LinkConsent
    now: float
    person: str
    signed_in: bool


def sign_in_failed(problem: str) -> Page:
    """Why an identity provider's answer signed nobody in; `problem` is the hall's own, never the provider's."""
    return _message("You are not signed in", problem=problem)


def console_sign_in(csrf_token: str, problem: str = "", *, has_oidc: bool = False) -> Page:
    """The sign-in page of the console; with an identity provider, a link to it comes first."""
    page = _sign_in(
        "Type an API key of your own once. This browser then stays signed in for a while.", csrf_token, problem
    )
    return Page("console_sign_in.html", {**page.values, "has_oidc": has_oidc})


def console_signed_in(caller: str, csrf_token: str | None, problem: str = "") -> Page:
    """Who is signed in; with a CSRF token, the form to sign out."""
    values = {"title": "You are signed in", "problem": problem, "caller": caller, "csrf_token": csrf_token}
    return Page("signed_in.html", values)


def approval_sign_in(csrf_token: str, problem: str = "") -> Page:
    """The sign-in page of an approval; it does not disclose whether the approval exists."""
    return _sign_in("A program waits for a decision. Sign in with your own key to see it.", csrf_token, problem)


def tools_sign_in(csrf_token: str, problem: str = "") -> Page:
    """The sign-in page of the list of tools."""
    return _sign_in("Sign in with your own key to see the tools that you may call.", csrf_token, problem)


def describe_effect(effect: str | None) -> str:
    """Return what a tool does to the world, in words."""
    return _EFFECTS.get(effect or "", _UNKNOWN_EFFECT)


def dialect_name(dialect: str) -> str:
    """Return what people call a dialect, such as REST, with its revision."""
    name, _, revision = dialect.removesuffix(CONSOLE_SUFFIX).partition("@")
    return f"{_DIALECT_NAMES.get(name, name)} {revision}".rstrip()


def approval_refused(message: str, csrf_token: str | None = None, problem: str = "", person: str = "") -> Page:
    """Why the person cannot decide; with a CSRF token, the page offers to sign in as another person."""
    if csrf_token is None:
        return _message(
            "Nothing to decide here",
            text=f"{message[:1].upper()}{message[1:]}.",
            problem=problem,
            offers_approvals=True,
        )
    return _not_yours("Not yours to decide", message, csrf_token, person, problem)


def approval_closed(approval: Approval) -> Page:
    """How the approval ended, and what happens next."""
    verified = approval.state == "approved" and approval.how == "step_up"
    title, lead = _APPROVAL_ENDINGS["verified" if verified else approval.state]
    return Page("approve_closed.html", {"title": title, "problem": "", "lead": lead, "approval": approval})


def approval_form(view: ApprovalView, csrf_token: CsrfTokens, problem: str = "") -> Page:
    """The call with its exact arguments, what differs from the last approved one, and the forms to decide."""
    approval, before = view.approval, view.before
    name, _, version = approval.tool.rpartition("@")
    arguments = approval.shown.decode("utf-8", "replace")
    values: dict[str, object] = {
        "title": _APPROVAL_TITLES[approval.how],
        "problem": problem,
        "introduction": _APPROVAL_INTRODUCTIONS[approval.how],
        "view": view,
        "approval": approval,
        "tool_name": name,
        "tool_version": version,
        "effect": describe_effect(approval.effect),
        "asked_by": dialect_name(approval.dialect),
        "seconds_left": max(approval.expires - view.now, 0),
        "arguments": arguments,
        "hidden_count": sum(hidden for _, hidden in mark_hidden(arguments)),
        "hidden_names": name_hidden(arguments)[:MAX_NAMED_CHARACTERS],
        "csrf_token": csrf_token,
    }
    if before is not None:
        values["approved_at"] = before.decided_at or before.created
        values["differences"] = json_differences(before.shown, approval.shown)
        values["other_differences"] = _other_differences(before, approval)
    return Page("approve.html", values)


def link_sign_in(csrf_token: str, problem: str = "") -> Page:
    """The sign-in page of an account link; it does not disclose whether the link exists."""
    text = "A program asks for an account. Sign in with your own key to see whether it asks you."
    return _sign_in(text, csrf_token, problem)


def link_not_yours(csrf_token: str, person: str, problem: str = "") -> Page:
    """The link is for another person; neither that person nor the account is named."""
    return _not_yours("Not for you", "this link is for another person", csrf_token, person, problem)


def link_not_found() -> Page:
    """The link does not exist, or has expired."""
    text = "There is no such link, or it is too old. Ask for it once more to get a new one."
    return _message(_LINK_GONE_TITLE, text=text)


def link_failed(message: str) -> Page:
    """Why nothing was linked; `message` is the hall's own, never the provider's."""
    return _message("The account was not linked", text=_CLOSE_PAGE, problem=message)


def link_closed(link: AccountLink) -> Page:
    """How the link ended, or that it needs no browser (`pending`)."""
    title, lead = _LINK_ENDINGS[link.state]
    values = {
        "title": title,
        "problem": "",
        "lead": lead,
        "link": link,
        "provider": provider_display_name(link.provider),
    }
    return Page("connect_closed.html", values)


def link_form(view: LinkView, csrf_token: CsrfTokens, problem: str = "") -> Page:
    """The access that is asked for, and the button that leads to the provider."""
    consent, link = view.consent, view.consent.link
    values = {
        "title": f"Link your account at {provider_display_name(link.provider)}?",
        "provider": provider_display_name(link.provider),
        "problem": problem,
        "tool_name": (link.tool or "").partition("@")[0],
        "tool_version": (link.tool or "").partition("@")[2],
        "consent": consent,
        "link": link,
        "person": view.person,
        "signed_in": view.signed_in,
        "seconds_left": max(link.expires - view.now, 0),
        # Any program that listens on this machine could receive the provider's redirect.
        "leads_to_loopback": urlsplit(f"//{consent.redirect_host}").hostname in _LOOPBACK,
        "csrf_token": csrf_token,
    }
    return Page("connect.html", values)


def enroll_form(person: str, csrf_token: str, options: str, problem: str = "") -> Page:
    """The form to register a passkey; `options` are those of WebAuthn, as JSON."""
    return _enroll(person, problem, csrf_token=csrf_token, options=options)


def enroll_unavailable(person: str, reason: str, problem: str = "") -> Page:
    """The invitation, and why no passkey can be registered at this address."""
    return _enroll(person, problem, options=None, unavailable=reason)


def enroll_done(person: str) -> Page:
    """The passkey was registered."""
    lead = f"From now on {person} can approve calls with it."
    return _message("The passkey is added", lead=lead, offers_approvals=True)


def enroll_gone(message: str) -> Page:
    """The invitation was used, or has expired."""
    return _message(_LINK_GONE_TITLE, text=message)


def _other_differences(before: Approval, approval: Approval) -> str:
    text = "" if before.tool == approval.tool else f" That was version {before.tool.rpartition('@')[2]}."
    if before.acting_for != approval.acting_for:
        text += f" That was for {'no user' if before.acting_for is None else f'the user {before.acting_for}'}."
    return text


def _sign_in(text: str, csrf_token: str, problem: str) -> Page:
    return Page("sign_in.html", {"title": "Sign in", "problem": problem, "text": text, "csrf_token": csrf_token})


def _not_yours(title: str, message: str, csrf_token: str, person: str, problem: str) -> Page:
    values = {"title": title, "problem": problem, "message": message, "person": person, "csrf_token": csrf_token}
    return Page("not_yours.html", values)


def _message(title: str, *, lead: str = "", text: str = "", problem: str = "", offers_approvals: bool = False) -> Page:
    values = {"title": title, "problem": problem, "lead": lead, "text": text, "offers_approvals": offers_approvals}
    return Page("message.html", values)


def _enroll(person: str, problem: str, **values: str | None) -> Page:
    return Page("enroll.html", {"title": "Add a passkey", "problem": problem, "person": person, **values})
