"""Mail: a tool that uses a linked account of the user for the time of one call."""

import html
import os
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec

from toolhall import Context, ToolFailed, Toolkit, tool
from toolhall.egress.urls import path_segment

GMAIL_ADDRESS = "TOOLHALL_EXAMPLES_GMAIL"  # environment variable with the URL of the mail service
_GMAIL = "https://gmail.googleapis.com"  # for a hall whose operator has set up Google as a provider
_MESSAGES = "/gmail/v1/users/me/messages"
_MAX_RESULTS = 10
_T = TypeVar("_T")


@dataclass(frozen=True)
class Email:
    """An email, without its text."""

    id: str
    subject: str
    snippet: str


@dataclass(frozen=True)
class Emails:
    """The emails that a search found."""

    emails: Annotated[list[Email], "List of retrieved emails."]


# Level 4: it changes nothing, but mail is private, so callers need a grant.
class Gmail(
    Toolkit,
    version="1.2.0",
    level=4,
    account="google:https://www.googleapis.com/auth/gmail.readonly",
    user_id=True,
    tags=["mail"],
):
    """Reads the user's mail."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address or os.environ.get(GMAIL_ADDRESS, _GMAIL)

    @tool(name="GetEmails", title="Get emails", effect="reads")
    async def get_emails(
        self, ctx: Context, query: Annotated[str, "Search query for filtering emails."] = ""
    ) -> Emails:
        """Retrieves emails from Gmail using OAuth 2.0 authentication."""
        async with ctx.account.client(self._address) as gmail:
            found = await gmail.get(_MESSAGES, params={"q": query, "maxResults": _MAX_RESULTS})
            references = _read(found.status_code, found.content, _Found).messages[:_MAX_RESULTS]
            emails: list[Email] = []
            for reference in references:
                path = f"{_MESSAGES}/{path_segment(reference.id)}"
                one = await gmail.get(path, params={"format": "metadata", "metadataHeaders": "Subject"})
                emails.append(_read(one.status_code, one.content, _Message).email)
        return Emails(emails)


class _Reference(msgspec.Struct):
    id: str


class _Found(msgspec.Struct):
    messages: list[_Reference] = []


class _Header(msgspec.Struct):
    name: str
    value: str


class _Payload(msgspec.Struct):
    headers: list[_Header] = []


class _Message(msgspec.Struct):
    id: str
    snippet: str = ""
    payload: _Payload = msgspec.field(default_factory=_Payload)

    @property
    def email(self) -> Email:
        subjects = [header.value for header in self.payload.headers if header.name.lower() == "subject"]
        return Email(self.id, subjects[0] if subjects else "", html.unescape(self.snippet))  # Gmail sends HTML


def _read(status: int, body: bytes, kind: type[_T]) -> _T:
    if status == 401:
        raise ToolFailed("Gmail does not accept the account any more; disconnect it, connect it again, then repeat")
    if status != 200:
        raise ToolFailed("Gmail cannot be read now", can_retry=status in (429, 500, 502, 503, 504))
    return msgspec.json.decode(body, type=kind)
