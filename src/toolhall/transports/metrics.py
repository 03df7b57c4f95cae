"""`/metrics`: the hall's figures for Prometheus, told to whoever may manage the hall, or to everybody."""

from toolhall.hall import Hall
from toolhall.telemetry.figures import Telemetry
from toolhall.telemetry.prometheus import CONTENT_TYPE, written
from toolhall.transports.exchange import Exchange

_REFUSAL = "these figures are for callers with the scope 'admin'; 'public_metrics' shows them to everybody"


class Metrics:
    """Answers with every figure."""

    def __init__(self, hall: Hall, telemetry: Telemetry, *, public: bool) -> None:
        self._hall = hall
        self._telemetry = telemetry
        self._public = public

    async def __call__(self, exchange: Exchange) -> None:
        """`GET /metrics`."""
        if not self._public and not self._hall.manage.allows(exchange.caller):
            await exchange.refuse(403, _REFUSAL)
            return
        body = written(self._telemetry)
        await exchange.start(200, [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body))])
        await exchange.part(body, more=False)
