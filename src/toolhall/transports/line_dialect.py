"""A message dialect on standard input and output: one JSON message a line, one reply a line."""

from collections.abc import Awaitable, Callable

from toolhall.model.caller import LOCAL, Caller
from toolhall.model.exchange import Wire
from toolhall.transports.crowd import Crowd
from toolhall.transports.lines import Lines

MAX_AT_ONCE = 256
LAST_ANSWERS_SECONDS = 2.0
_LINE = "stdio"  # there is only this one


async def serve_lines(
    lines: Lines, answer: Callable[[bytes | None, Caller, str], Awaitable[Wire]], max_body: int
) -> None:
    """Answer every line until the input ends, then give running calls a moment."""
    crowd = Crowd(MAX_AT_ONCE)

    async def one(line: bytes | None) -> None:
        wire = await answer(line, LOCAL, _LINE)
        if wire.body:
            lines.write(wire.body)

    try:
        async for line in lines.read():
            await crowd.start(one(None if line is None or len(line) > max_body else line))
            await lines.drain()
    finally:
        await crowd.finish(LAST_ANSWERS_SECONDS)
