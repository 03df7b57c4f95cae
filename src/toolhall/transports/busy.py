"""What a request is told for which there is no place: 503 and when to come back, in the words of its dialect."""

from toolhall.model.errors import Limited
from toolhall.model.exchange import Wire
from toolhall.transports.refusals import refusal

RETRY_SECONDS = 1.0
_STATUS = 503  # not 429: this caller need not have sent too much


def no_place() -> Limited:
    """What is wrong."""
    error = Limited(RETRY_SECONDS)
    error.message = (
        "this server answers as many requests as it can, and of one caller half of them: try again in a second"
    )
    return error


def busy(path: str) -> Wire:
    """What a client of this path understands; its message was not looked at, so the answer names none."""
    said = refusal(path, no_place())
    return Wire(said.body, _STATUS, said.headers)
