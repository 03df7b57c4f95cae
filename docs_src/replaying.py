from toolhall import Config, Toolkit, tool
from toolhall.testing import Client


class Weather(Toolkit, version="1.0.0"):
    """What the sky does."""

    @tool(effect="reads")
    def forecast(self, city: str) -> dict[str, float]:
        """Forecast the weather for a city."""
        return {"celsius": 21.5, "wind": float(len(city))}


async def record_calls(folder: str) -> None:
    config = Config(data=folder, record=("Weather.*",))
    async with Client(Weather, config=config) as client:
        for city in ("Oslo", "Bergen"):
            await client.call_named("Weather_forecast", {"city": city})
