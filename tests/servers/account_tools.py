"""Tools that a hall in a process of its own serves: one that needs an account, one that needs nothing."""

import hashlib
import os

from toolhall import Context, Toolkit, tool


class Post(Toolkit, name="Post", version="1.0.0"):
    """Letters of a user."""

    @tool(account="acme:mail.read", level=4, effect="reads")
    async def read(self, ctx: Context) -> dict[str, str]:
        """Say by which process and with which token the letters were read, so that a test can tell it from others."""
        return {"token": hashlib.sha256(ctx.account.token.encode()).hexdigest(), "process": str(os.getpid())}

    @tool(level=1, effect="reads")
    async def open(self) -> str:
        """Say which process answers."""
        return str(os.getpid())
