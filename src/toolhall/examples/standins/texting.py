"""A stand-in for Twilio: takes messages to phones, and sends none."""

import re
import secrets
from collections import deque
from typing import NamedTuple

from toolhall.examples.standins.messages import Reply, Request, in_json

MESSAGES = "/2010-04-01/Messages.json"
_KEY = re.compile(r"SK[A-Za-z0-9]{32}")
_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")  # E.164
_MOST_LETTERS = 1_600
_MOST_KEPT = 20


class Taken(NamedTuple):
    """A message that a phone would have got."""

    to: str
    body: str


class Texting:
    """Believes every key that looks like one."""

    def __init__(self, _url: str = "") -> None:
        self.taken: deque[Taken] = deque(maxlen=_MOST_KEPT)

    def __call__(self, request: Request) -> Reply:
        """The answer to a request, with Twilio's own error codes."""
        if (request.method, request.path) != ("POST", MESSAGES):
            return _failed(404, 20404, "The requested resource was not found")
        if not _KEY.fullmatch(request.bearer):
            return _failed(401, 20003, "Authenticate")
        said = Taken(request.form.get("To", ""), request.form.get("Body", ""))
        if not _NUMBER.fullmatch(said.to):
            return _failed(400, 21211, "Invalid 'To' Phone Number")
        if not 0 < len(said.body) <= _MOST_LETTERS:
            return _failed(400, 21617, "The message is empty, or too long")
        self.taken.append(said)
        return in_json({"sid": f"SM{secrets.token_hex(16)}", "status": "queued", "to": said.to}, 201)


def _failed(status: int, code: int, message: str) -> Reply:
    return in_json({"code": code, "message": message, "status": status}, status)
