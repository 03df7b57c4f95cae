"""The loop of a server that is not uvicorn's: the fast one, where there is one."""

import asyncio
from collections.abc import Callable

new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
try:
    import uvloop

    new_loop = uvloop.new_event_loop
except ImportError:  # not on Windows, and not with every Python
    pass
