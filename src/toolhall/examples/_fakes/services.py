"""FakeGoogle and FakeTwilio, and `run_fake_services`, which starts them beside a hall that serves the examples.

The tools get the URLs of the fakes from environment variables, because several processes may serve one hall.
"""

import os
import re
import secrets
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from html import escape
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from toolhall.config import Config
from toolhall.examples._fakes.http_server import FakeRequest, FakeResponse, FakeServers, FakeService, json_response
from toolhall.examples._fakes.oauth_provider import CLIENT_ID, FakeGrants, FakeOAuthProvider
from toolhall.examples.gmail import GMAIL_ADDRESS
from toolhall.examples.sms import SMS_ADDRESS
from toolhall.oauth.providers import ProviderSettings

GOOGLE_PROVIDER = "google"
MAILBOX_USER = "robin@example.com"
READ_MAIL_SCOPE = "https://www.googleapis.com/auth/gmail.readonly"
SMS_PATH = "/2010-04-01/Messages.json"
_MESSAGES_PATH = "/gmail/v1/users/me/messages"
_KEY = re.compile(r"SK[A-Za-z0-9]{32}")
_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")  # E.164
_MAX_CHARACTERS = 1_600
_MAX_KEPT = 20


class _Email(NamedTuple):
    id: str
    sender: str
    subject: str
    text: str


_EMAILS = (
    _Email("18f0c1a2b3d40001", "ada@example.com", "Lunch on Friday?", "The place by the river & a table for four."),
    _Email("18f0c1a2b3d40002", "library@example.org", "Your book is due", "Please bring it back by Monday."),
    _Email("18f0c1a2b3d40003", "ada@example.com", "Slides for the talk", "Here they are. The last one needs a title."),
    _Email("18f0c1a2b3d40004", "bank@example.net", "Your statement for May", "It waits for you in your account."),
)


def list_messages(query: str, limit: int) -> dict[str, Any]:
    """The response of Gmail's `users.messages.list`; a word may name a field: `from:ada`, `subject:book`."""
    matching = [email for email in _EMAILS if all(_matches(email, word) for word in query.casefold().split())]
    listed = [{"id": email.id, "threadId": email.id} for email in matching[:limit]]
    return {"messages": listed, "resultSizeEstimate": len(matching)} if listed else {"resultSizeEstimate": 0}


def get_message(id: str) -> dict[str, Any] | None:  # noqa: A002 - as Gmail calls it
    """The response of Gmail's `users.messages.get` in the format `metadata`; the snippet is HTML, as Gmail's is."""
    for email in _EMAILS:
        if email.id == id:
            headers = [{"name": "From", "value": email.sender}, {"name": "Subject", "value": email.subject}]
            snippet = escape(email.text)
            return {"id": id, "threadId": id, "snippet": snippet, "payload": {"headers": headers}}
    return None


def _matches(email: _Email, word: str) -> bool:
    field, colon, wanted = word.partition(":")
    fields = {"from": email.sender, "subject": email.subject}
    if colon and field in fields:
        return wanted in fields[field].casefold()
    return any(word in part.casefold() for part in email[1:])


class FakeGoogle:
    """A fake of Google: OAuth provider and Gmail API; `url` is its own address and its issuer."""

    def __init__(self, url: str, public_url: str | None = None, grants: FakeGrants | None = None) -> None:
        self._grants = grants or FakeGrants()
        self._provider = FakeOAuthProvider(url, MAILBOX_USER, (READ_MAIL_SCOPE,), self._grants, public_url)

    def __call__(self, request: FakeRequest) -> FakeResponse:
        """Answer a request."""
        route = self._provider.routes.get((request.method, request.path))
        if route is not None:
            return route(request)
        if request.method == "GET" and f"{request.path}/".startswith(f"{_MESSAGES_PATH}/"):
            return self._mail(request)
        return _google_error(404, "NOT_FOUND")

    def _mail(self, request: FakeRequest) -> FakeResponse:
        if not self._grants.allows(request.bearer, READ_MAIL_SCOPE):
            return _google_error(401, "UNAUTHENTICATED")
        if request.path == _MESSAGES_PATH:
            limit = request.query.get("maxResults", "100")
            return json_response(list_messages(request.query.get("q", ""), int(limit) if limit.isdecimal() else 100))
        email = get_message(unquote(request.path.removeprefix(f"{_MESSAGES_PATH}/")))
        return _google_error(404, "NOT_FOUND") if email is None else json_response(email)


def _google_error(code: int, status: str) -> FakeResponse:
    return json_response({"error": {"code": code, "status": status}}, code)


class FakeSms(NamedTuple):
    """A message that Twilio would have sent to a phone."""

    to: str
    body: str


class FakeTwilio:
    """A fake of Twilio's message API; it accepts every key of the right form."""

    def __init__(self, _url: str = "") -> None:
        self.messages: deque[FakeSms] = deque(maxlen=_MAX_KEPT)

    def __call__(self, request: FakeRequest) -> FakeResponse:
        """Answer a request, with Twilio's own error codes."""
        if (request.method, request.path) != ("POST", SMS_PATH):
            return _twilio_error(404, 20404, "The requested resource was not found")
        if not _KEY.fullmatch(request.bearer):
            return _twilio_error(401, 20003, "Authenticate")
        message = FakeSms(request.form.get("To", ""), request.form.get("Body", ""))
        if not _NUMBER.fullmatch(message.to):
            return _twilio_error(400, 21211, "Invalid 'To' Phone Number")
        if not 0 < len(message.body) <= _MAX_CHARACTERS:
            return _twilio_error(400, 21617, "The message is empty, or too long")
        self.messages.append(message)
        return json_response({"sid": f"SM{secrets.token_hex(16)}", "status": "queued", "to": message.to}, 201)


def _twilio_error(status: int, code: int, message: str) -> FakeResponse:
    return json_response({"code": code, "message": message, "status": status}, status)


@contextmanager
def run_fake_services(config: Config) -> Generator[Config, None, None]:
    """Run the fakes and yield the settings with them; a configured provider `google` is kept."""
    factories: dict[str, Callable[[str], FakeService]] = {SMS_ADDRESS: FakeTwilio}
    # A hall that cannot store accounts, or has no URL for its pages, refuses to start with a provider.
    links_accounts = config.profile == "local" or None not in (config.vault_key, config.public_url)
    if GOOGLE_PROVIDER not in config.providers and links_accounts:
        factories[GMAIL_ADDRESS] = lambda url: FakeGoogle(url, config.public_url)
    servers = FakeServers(*factories.values())
    addresses = dict(zip(factories, servers.urls, strict=True))
    os.environ.update(addresses)
    try:
        yield _config_with_fakes(config, addresses)
    finally:
        for name in addresses:
            os.environ.pop(name, None)
        servers.close()


def _config_with_fakes(config: Config, addresses: dict[str, str]) -> Config:
    """The settings with the fakes' own ports allowed for egress, and the fake Google as a provider."""
    hosts = (url.removeprefix("http://") for url in addresses.values())
    providers = dict(config.providers)
    if GMAIL_ADDRESS in addresses:
        # With its scope, so that 'toolhall account connect google' need not name it.
        google = ProviderSettings(issuer=addresses[GMAIL_ADDRESS], client_id=CLIENT_ID, scopes=(READ_MAIL_SCOPE,))
        providers[GOOGLE_PROVIDER] = google
    return msgspec.structs.replace(config, egress_allow=(*config.egress_allow, *hosts), providers=providers)
