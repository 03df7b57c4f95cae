from typing import Annotated

from toolhall import tool


@tool(effect="reads")
async def forecast(city: Annotated[str, "City name"], days: int = 3) -> list[str]:
    """Forecast the weather for a city."""
    return [f"{city}, day {day}: sunny" for day in range(1, days + 1)]
