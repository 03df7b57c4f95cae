"""`/health`: whether the hall stands, and how many tools it serves."""

from toolhall.model.exchange import Wire
from toolhall.model.json import encode
from toolhall.registry.registry import Registry
from toolhall.transports.exchange import Exchange


class Health:
    """Answers without looking at the caller, so that a balancer can ask."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def __call__(self, exchange: Exchange) -> None:
        """One small JSON object."""
        state = {"status": "healthy", "tools": len(self._registry.snapshot.entries)}
        await exchange.reply(Wire(encode(state)))
