"""For terminals without a browser (RFC 8628): the person enters a code elsewhere, the hall asks until it is done."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from toolhall.accounts.asking import Asker
from toolhall.accounts.connecting import Connecting
from toolhall.accounts.discovery import Discovery
from toolhall.accounts.failures import LinkFailed, Refusal, Unreachable
from toolhall.accounts.forms import device_form, poll_form
from toolhall.accounts.providers import Endpoints, Provider
from toolhall.accounts.replies import DeviceCode, Granted, read_device, read_tokens
from toolhall.model.errors import ToolhallError
from toolhall.stores.accounts.base import Link
from toolhall.stores.base import StoreFailed

SLOWER = 5.0  # seconds more, each time that a provider asks for it
_MOST_PAUSE = 60.0
_LOG = logging.getLogger(__name__)


class Devices:
    """Each code is asked about by one task of this process, which ends with the link."""

    def __init__(
        self,
        connecting: Connecting,
        asker: Asker,
        discovery: Discovery,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connecting = connecting
        self._asker = asker
        self._discovery = discovery
        self._clock = clock
        self._sleep = sleep
        self.tasks: set[asyncio.Task[None]] = set()
        self._pausing: set[asyncio.Task[None]] = set()  # of these, nothing can be lost
        self._closed = False

    async def start(self, link: Link, provider: Provider) -> DeviceCode:
        """What the person enters, and where; raises LinkFailed, Refusal, Unreachable."""
        endpoints = await self._discovery.endpoints(provider)
        if endpoints.device_url is None:
            raise LinkFailed(f"{provider.name} has no codes for devices; connect it in a browser, or paste the address")
        asked = await self._connecting.asked(link, provider)
        reply = await self._asker.ask(provider, endpoints, endpoints.device_url, device_form(provider, asked))
        code = read_device(reply)
        granting = partial(self._granted, link, provider, endpoints, code, asked)
        task = asyncio.ensure_future(self._followed(link, provider, granting))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return code

    async def close(self) -> None:
        """Ask no more; what a provider is giving right now is kept."""
        self._closed = True
        for task in self._pausing:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)

    async def _followed(self, link: Link, provider: Provider, granting: Callable[[], Awaitable[Granted]]) -> None:
        try:
            await self._ended(link, provider, granting)
        except StoreFailed as failed:
            _LOG.warning("the account at %s cannot be kept: %s", provider.name, failed)

    async def _ended(self, link: Link, provider: Provider, granting: Callable[[], Awaitable[Granted]]) -> None:
        store = self._connecting.store
        try:
            granted = await granting()
            if await store.link_claim(link.id, "") is None:
                raise LinkFailed
            await self._connecting.keep(link, provider, granted)
            await store.link_end(link.id, "completed")
        except ToolhallError as failed:
            await store.link_end(link.id, "failed", failed.message)

    async def _pause(self, seconds: float) -> None:
        """The only place where closing ends a task."""
        task = asyncio.current_task()
        if task is None or self._closed:
            raise asyncio.CancelledError
        self._pausing.add(task)
        try:
            await self._sleep(seconds)
        finally:
            self._pausing.discard(task)

    async def _granted(
        self, link: Link, provider: Provider, endpoints: Endpoints, code: DeviceCode, asked: tuple[str, ...]
    ) -> Granted:
        until = min(link.expires, self._clock() + code.expires_in)
        pause = code.interval
        while True:
            await self._pause(pause)
            if self._clock() >= until:
                raise LinkFailed("the code was not entered in time; start again")
            try:
                form = poll_form(code.device_code)
                reply = await self._asker.ask(provider, endpoints, endpoints.token_url, form)
                return read_tokens(reply, provider, asked, self._clock())
            except Refusal as refusal:
                if refusal.code == "slow_down":
                    pause += SLOWER
                elif refusal.code != "authorization_pending":
                    raise LinkFailed(_said(refusal)) from None
            except Unreachable as error:
                _LOG.info("asking %s about a code failed: %s", provider.name, error)
                pause = min(pause * 2, _MOST_PAUSE)


def _said(refusal: Refusal) -> str:
    if refusal.code == "access_denied":
        return "access was denied: nothing was connected"
    if refusal.code == "expired_token":
        return "the code was not entered in time; start again"
    return f"the provider refused: {refusal.code}"
