"""What the hall itself runs, beside the tools of its tool servers."""

from toolhall import Toolkit, tool


class Beside(Toolkit, version="1.0.0"):
    """Nothing that happens to a tool server may be felt here."""

    @tool(effect="reads", timeout=5)
    async def echo(self, nonce: str) -> str:
        """Return it."""
        return nonce
