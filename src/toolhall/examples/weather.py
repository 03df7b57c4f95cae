"""The weather: a plain function as a tool, which keeps its bare name."""

from typing import Annotated

from toolhall import ToolFailed, tool

# A table instead of a forecast service, so that the example works anywhere and always says the same.
_KNOWN = {
    "berlin": (61, "Light rain"),
    "new york": (72, "Partly cloudy"),
    "oslo": (48, "Clear"),
    "sydney": (79, "Sunny"),
    "10001": (72, "Partly cloudy"),
}


@tool(title="Weather Information Provider", effect="reads", level=1)
async def get_weather(location: Annotated[str, "City name or zip code"]) -> str:
    """Get current weather information for a location"""
    found = _KNOWN.get(location.strip().casefold())
    if found is None:
        raise ToolFailed("there is no weather for this location; try Berlin, New York, Oslo or Sydney")
    temperature, conditions = found
    return f"Current weather in {location.strip()}:\nTemperature: {temperature}°F\nConditions: {conditions}"
