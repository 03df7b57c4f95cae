"""The mail of somebody who does not exist, in the words of Gmail's API."""

from html import escape
from typing import Any, NamedTuple

USER = "robin@example.com"


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


def found(query: str, most: int) -> dict[str, Any]:
    """As `users.messages.list`; a word may say where to look: `from:ada`, `subject:book`."""
    fitting = [email for email in _EMAILS if all(_fits(email, word) for word in query.casefold().split())]
    listed = [{"id": email.id, "threadId": email.id} for email in fitting[:most]]
    return {"messages": listed, "resultSizeEstimate": len(fitting)} if listed else {"resultSizeEstimate": 0}


def message(id: str) -> dict[str, Any] | None:  # noqa: A002 - as Gmail calls it
    """As `users.messages.get` in the format `metadata`; the snippet is HTML, as Gmail's is."""
    for email in _EMAILS:
        if email.id == id:
            headers = [{"name": "From", "value": email.sender}, {"name": "Subject", "value": email.subject}]
            snippet = escape(email.text)
            return {"id": id, "threadId": id, "snippet": snippet, "payload": {"headers": headers}}
    return None


def _fits(email: _Email, word: str) -> bool:
    field, colon, wanted = word.partition(":")
    places = {"from": email.sender, "subject": email.subject}
    if colon and field in places:
        return wanted in places[field].casefold()
    return any(word in part.casefold() for part in email[1:])
