"""MemoryLink: a session with a hall in this process, through its real MCP, without a pipe or a port between the two."""

import asyncio
from contextlib import suppress

from toolhall.app import Toolhall
from toolhall.http.stdio_lines import StdioLines
from toolhall.mcp_client.child_output import FrameSplitter, FrameTooLarge
from toolhall.mcp_client.child_process import PipeListener
from toolhall.mcp_client.session import McpSession, NotSent, SessionEvents
from toolhall.mcp_client.stdio_session import open_pipe
from toolhall.mcp_client.targets import ClientProfile, QuestionHandler

_ENDED = "the hall does not serve this client any more"


class MemoryLink:
    """A hall's MCP over lines, as a MessagePipe: what is sent is received in a later turn of the event loop."""

    def __init__(self, hall: Toolhall, listener: PipeListener, max_frame_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._frames = FrameSplitter(max_frame_bytes)
        self._lines = StdioLines(hall.config.max_body_bytes)
        self._lines.source = self._lines.target = self
        self._serving = asyncio.ensure_future(hall.serve_mcp_lines(self._lines))
        self._serving.add_done_callback(self._on_end)

    @property
    def is_running(self) -> bool:
        """Whether the hall reads."""
        return not self._serving.done()

    async def send(self, frame: bytes) -> None:
        """Send a message to the hall; raises NotSent."""
        if self._serving.done():
            raise NotSent(_ENDED)
        self._loop.call_soon(self._lines.data_received, frame + b"\n")

    async def close(self) -> None:
        """End the hall's input and wait until it has ended this client's calls."""
        self._lines.end()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({self._serving})

    def abort(self, cause: str) -> None:
        """End it without waiting for calls that run."""
        del cause
        self._serving.cancel()

    def _on_end(self, serving: "asyncio.Task[None]") -> None:
        error = None if serving.cancelled() else serving.exception()
        self._listener.on_exit(_ENDED if error is None else f"{_ENDED}: {type(error).__name__}")

    # --- LineSource and LineTarget: what the hall reads from and writes to ---

    def is_closing(self) -> bool:
        """Whether nothing more goes through."""
        return self._serving.done()

    def pause_reading(self) -> None:
        """Do nothing: who sends is in this process, and waits for answers."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        """Nothing waits: every message is taken at once."""
        return 0

    def write(self, data: bytes) -> None:
        """Take messages of the hall."""
        try:
            frames = self._frames.feed(data)
        except FrameTooLarge:
            self.abort("a message is larger than what is passed on")
            return
        for frame in frames:
            self._loop.call_soon(self._listener.on_frame, frame)


class LocalHall:
    """The hall that a client in memory talks to: one that it was given, or one of its own around tools."""

    def __init__(self, targets: tuple[object, ...]) -> None:
        given = targets[0]
        self._owned = not (len(targets) == 1 and isinstance(given, Toolhall))
        self.hall = given if isinstance(given, Toolhall) and not self._owned else Toolhall(*targets)
        self._opened = False

    async def open_session(
        self, profile: ClientProfile, events: SessionEvents, questions: QuestionHandler | None
    ) -> McpSession:
        """Open the hall, unless it runs already, and a session with it."""
        if not self.hall.is_open:
            if self._owned:
                self.hall.without_pages()
            self._opened = True
            await self.hall.open()

        async def start(listener: PipeListener) -> MemoryLink:
            return MemoryLink(self.hall, listener, profile.max_message_bytes)

        return await open_pipe(start, profile, events, questions=questions)

    async def close(self) -> None:
        """Leave the hall as it was found; one of its own is closed."""
        if self._opened:
            self._opened = False
            await self.hall.settle()
        if self._owned:
            self.hall.close()
