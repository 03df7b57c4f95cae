"""`ListenStream`: what a session of 2026-07-28 listens to its server for, over `subscriptions/listen`.

The revision has one request for this, whose stream stays open. When what is wanted changes, a new one is opened with
all of it, and the old one is closed afterwards, so that nothing is missed between them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.dialects.mcp.protocol import INVALID_PARAMS
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    NotSent,
    RequestLost,
    RpcError,
    ServerDescription,
    SessionError,
)
from toolhall.model.json import JsonObject

SUBSCRIBE_METHODS = frozenset({"resources/subscribe", "resources/unsubscribe"})
MAX_SUBSCRIPTIONS = 1_000
MIN_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 60.0
OVERLAP_SECONDS = 1.0
Requester: TypeAlias = Callable[[McpRequest], Awaitable[msgspec.Raw]]
LISTS: tuple[Literal["tools", "resources", "prompts"], ...] = ("tools", "resources", "prompts")


class ListenStream:
    """Keeps a listen stream open with what the server offers to tell, and what was subscribed to.

    `request` sends a request of the session; the notifications on its stream are routed by the session as all are.
    `on_gap` is called when a stream is opened in place of one that was lost: nobody heard what changed in between.
    """

    def __init__(
        self,
        server: ServerDescription,
        request: Requester,
        credentials: Headers = (),
        on_gap: Callable[[], None] = lambda: None,
    ) -> None:
        self._request = request
        self._on_gap = on_gap
        self._credentials = credentials
        self._lists = {f"{each}ListChanged": True for each in LISTS if server.has(each, "listChanged")}
        self._uris: dict[str, None] = {}
        self._changed = asyncio.Event()
        self.is_running = False

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to listen for."""
        return bool(self._lists or self._uris)

    def change(self, request: McpRequest) -> bool:
        """Take a request of SUBSCRIBE_METHODS; whether there is anything to listen for now. Raises RpcError."""
        uri = request.params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(INVALID_PARAMS, "params.uri must be the URI of a resource")
        if request.method == "resources/unsubscribe":
            self._uris.pop(uri, None)
        elif uri not in self._uris and len(self._uris) >= MAX_SUBSCRIPTIONS:
            raise RpcError(INVALID_PARAMS, f"a session can have {MAX_SUBSCRIPTIONS} subscriptions at most")
        else:
            self._uris[uri] = None
        self._changed.set()
        return self.is_needed

    async def run(self) -> None:
        """Listen until there is nothing to listen for, or the server does not offer it."""
        self.is_running = True
        listening: asyncio.Task[bool] | None = None
        tasks = BackgroundTasks()
        try:
            while self.is_needed:
                self._changed.clear()
                following = tasks.start(self._listen())
                if listening is not None:
                    await asyncio.wait({following}, timeout=OVERLAP_SECONDS)
                    listening.cancel()
                listening = following
                changed = tasks.start(self._changed.wait())
                await asyncio.wait({listening, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if listening.done():
                    if not listening.result():
                        return
                    listening = None
        finally:
            self.is_running = False
            await tasks.shutdown()

    async def _listen(self) -> bool:
        """Keep one stream open, again and again after it has ended; False if the server does not offer it."""
        wanted: JsonObject = {**self._lists, **({"resourceSubscriptions": [*self._uris]} if self._uris else {})}
        request = McpRequest(
            method="subscriptions/listen", params={"notifications": wanted}, credentials=self._credentials
        )
        loop, pause = asyncio.get_running_loop(), MIN_PAUSE_SECONDS
        while True:
            started = loop.time()
            try:
                await self._request(request)
            except (NotSent, RequestLost):
                pass
            except SessionError:
                return False
            pause = (
                MIN_PAUSE_SECONDS if loop.time() - started > MAX_PAUSE_SECONDS else min(2 * pause, MAX_PAUSE_SECONDS)
            )
            await asyncio.sleep(pause)
            self._on_gap()
