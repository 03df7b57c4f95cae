"""What people see where an account is linked: at which provider, for what, for which tool, and where it leads."""

from urllib.parse import urlsplit

import msgspec

from toolhall.accounts.broker import Consent
from toolhall.stores.accounts.base import Link
from toolhall.transports.pages.html import alert, button, document, facts, form, paragraph, sentence, text
from toolhall.transports.pages.views import Words, duration, key_form

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OVER = {
    "pending": ("Nothing to do here", "This account is linked from the terminal where you asked for it."),
    "claimed": ("One moment", "The provider has answered, and the account is being linked. Look again in a moment."),
    "completed": ("The account is linked", "The program can use it now: it has to ask for it once more."),
    "failed": ("The account was not linked", "Nothing was linked. Ask for it once more to get a new link."),
}
_CLOSE = "You can close this page."


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows to whom."""

    asked: Consent
    now: float
    person: str
    signed_in: bool


def sign_in(word: str, wrong: str = "") -> bytes:
    """For whoever is not known yet."""
    says = paragraph("A program asks for an account. Sign in with your own key to see whether it asks you.")
    return document("Sign in", _wrong(wrong), says, key_form(word))


def not_for_you(word: str, person: str, wrong: str = "") -> bytes:
    """Says nothing of who it is for, or what it is about."""
    again = paragraph("You are ", text(person), ". Sign in as somebody else:")
    return document("Not for you", _wrong(wrong), paragraph("This link is for another person."), again, key_form(word))


def nothing() -> bytes:
    """There is none, or nobody used it in time."""
    says = "There is no such link, or it is too old. Ask for it once more to get a new one."
    return document("This link leads nowhere any more", paragraph(says))


def failed(message: str) -> bytes:
    """Why nothing was linked, in words of our own."""
    return document("The account was not linked", alert(message), paragraph(_CLOSE))


def over(link: Link) -> bytes:
    """What became of it, or that no browser is needed for it."""
    title, says = _OVER[link.state]
    why = paragraph(sentence(link.reason)) if link.reason else ""
    return document(title, paragraph(says, kind="lead"), why, _about(link), paragraph(_CLOSE))


def offer(shown: Offer, word: Words, wrong: str = "") -> bytes:
    """What is asked for, and the one button."""
    name = shown.asked.link.provider
    provider = text(name)
    lead = (
        f"A tool wants to use your account at {provider}. If you go on, {provider} asks you to sign in there and to"
        " agree. The tool gets the access below, and never your password. If this surprises you, close the page."
    )
    return document(
        f"Link your account at {name}?",
        _wrong(wrong),
        paragraph(lead, kind="lead"),
        facts(_facts(shown)),
        _returning(shown),
        form(word("connect"), "connect", button(f"Go on to {name}")),
        form(word("sign_out"), "sign_out", button("Sign out", "plain")) if shown.signed_in else "",
    )


def _facts(shown: Offer) -> list[tuple[str, str]]:
    link = shown.asked.link
    left = max(link.expires - shown.now, 0)
    scopes = "".join(f"<li><code>{text(scope)}</code></li>" for scope in shown.asked.scopes)
    return [
        ("Provider", f"<strong>{text(link.provider)}</strong> ({text(shown.asked.provider_host)})"),
        ("Access", f"<ul>{scopes}</ul>" if scopes else "whatever the provider gives without being asked for more"),
        ("Tool", text(link.tool or "any tool that you call and that needs it")),
        ("Account of", text(link.user)),
        ("Asked by", text(link.caller)),
        ("Leads back to", f"<code>{text(shown.asked.redirect_host)}</code>"),
        ("Time left", f'<span data-left="{left:.0f}">{duration(left)}</span>'),
        ("You are", text(shown.person)),
    ]


def _returning(shown: Offer) -> str:
    """Whatever listens on this machine gets what the provider sends back."""
    if urlsplit(f"//{shown.asked.redirect_host}").hostname not in _LOOPBACK:
        return ""
    return paragraph(
        "The provider will send your browser back to a program on the computer that you sit at, <code>",
        text(shown.asked.redirect_host),
        "</code>. Go on only if you run this hall there yourself.",
        kind="warning",
    )


def _about(link: Link) -> str:
    tool = f" for the tool <code>{text(link.tool)}</code>" if link.tool else ""
    return paragraph(f"It was about your account at <code>{text(link.provider)}</code>{tool}.")


def _wrong(message: str) -> str:
    return alert(message) if message else ""
