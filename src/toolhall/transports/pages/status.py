"""`/approve/{id}/status`: what became of a question, for the program that waits for the answer."""

from toolhall.model.exchange import Wire
from toolhall.model.json import encode
from toolhall.stores.approvals.base import Approval
from toolhall.transports.exchange import Exchange

SUFFIX = "/status"
# OXP's words for an authorization; the id is all that whoever asks has, so it is told no more than this.
_SAID = {"pending": "pending", "approved": "completed", "consumed": "completed"}


async def send_status(exchange: Exchange, found: Approval | None) -> None:
    """Pending, completed or failed; an id that is not there has failed too."""
    said = "failed" if found is None else _SAID.get(found.state, "failed")
    await exchange.reply(Wire(encode({"status": said}), 404 if found is None else 200), (b"cache-control", b"no-store"))
