"""A message dialect on standard input and output: one JSON message a line, one reply a line."""

from collections.abc import Awaitable, Callable

from toolhall.model.caller import LOCAL, Caller
from toolhall.model.exchange import Wire
from toolhall.transports.crowd import Crowd
from toolhall.transports.lines import Lines

MAX_AT_ONCE = 256
LAST_ANSWERS_SECONDS = 2.0


async def serve_lines(lines: Lines, answer: Callable[[bytes, Caller], Awaitable[Wire]], max_body: int) -> None:
    """Answer every line until the input ends, then give running calls a moment."""
    crowd = Crowd(MAX_AT_ONCE)

    async def one(line: bytes) -> None:
        wire = await answer(line, LOCAL)
        if wire.body:
            lines.write(wire.body)

    try:
        async for line in lines.read():
            # A line that is too long is answered like one that is not JSON: as a message that cannot be read.
            await crowd.start(one(b"" if line is None or len(line) > max_body else line))
            await lines.drain()
    finally:
        await crowd.finish(LAST_ANSWERS_SECONDS)
