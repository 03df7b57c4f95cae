"""SMS: a tool that uses a secret, which only the hall and the tool see."""

import os
from dataclasses import dataclass
from typing import Annotated

import msgspec

from toolhall import Context, ToolFailed, Toolkit, tool

SMS_ADDRESS = "TOOLHALL_EXAMPLES_SMS"  # environment variable with the URL of the SMS service
_MESSAGES = "/2010-04-01/Messages.json"
_NO_SERVICE = (
    "there is no SMS service here; serve the examples with 'toolhall serve', which starts a stand-in for Twilio"
)
_WRONG_KEY = (
    "Twilio does not know the key: set it again with 'toolhall secret set TWILIO_API_KEY'; a key begins with SK and has"
    " 34 characters"
)
_NOT_TAKEN = "the message was not taken; try again later"
_WRONG = {
    21211: "this is no phone number; write it with the code of its country, such as +4915112345678",
    21617: "the message is empty or too long; send 1 to 1600 characters",
}


@dataclass(frozen=True)
class Sent:
    """The status of a sent message."""

    status: Annotated[str, "Status of the SMS sending operation."]


class SMS(Toolkit, version="0.1.2", secrets=["TWILIO_API_KEY"], tags=["phone"]):
    """Sends short messages to phones."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address or os.environ.get(SMS_ADDRESS)

    # Level 4: a message reaches a stranger, costs money and cannot be recalled, so callers need a grant.
    @tool(name="Send", title="Send an SMS", level=4, effect="writes")
    async def send(
        self,
        ctx: Context,
        to: Annotated[str, "Recipient phone number."],
        message: Annotated[str, "Message content to send."],
    ) -> Sent:
        """Sends SMS messages using Twilio."""
        if self._address is None:
            raise ToolFailed(_NO_SERVICE)
        key = {"authorization": f"Bearer {ctx.secret('TWILIO_API_KEY')}"}
        async with ctx.http(base_url=self._address, headers=key) as twilio:
            reply = await twilio.post(_MESSAGES, data={"To": to, "Body": message})
        if reply.status_code == 401:
            raise ToolFailed(_WRONG_KEY)
        if reply.status_code == 400:
            raise ToolFailed(_WRONG.get(_read(reply.content).code, _NOT_TAKEN))
        if reply.status_code != 201:
            raise ToolFailed(_NOT_TAKEN)
        return Sent(str(_read(reply.content).status))


class _Reply(msgspec.Struct):
    status: str | int = ""  # of the message, or of the refusal
    code: int = 0


def _read(body: bytes) -> _Reply:
    return msgspec.json.decode(body, type=_Reply)
