"""`/approve/{id}/status` and `/connect/{id}/status`: what became of it, for the program that waits for a person."""

from toolhall.model.exchange import Wire
from toolhall.model.json import encode
from toolhall.stores.accounts.base import Link
from toolhall.stores.approvals.base import Approval
from toolhall.transports.exchange import Exchange

SUFFIX = "/status"
# OXP's words for an authorization; the id is all that whoever asks has, so it is told no more than this.
_SAID = {
    "pending": "pending",
    "claimed": "pending",
    "approved": "completed",
    "consumed": "completed",
    "completed": "completed",
}


async def send_status(exchange: Exchange, found: Approval | Link | None) -> None:
    """Pending, completed or failed; an id that is not there has failed too."""
    said = "failed" if found is None else _SAID.get(found.state, "failed")
    await exchange.reply(Wire(encode({"status": said}), 404 if found is None else 200), (b"cache-control", b"no-store"))
