"""Everything a tool can return."""

from dataclasses import dataclass

from toolhall import Image, Notes, Reply, ResourceLink, Text, tool

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


@dataclass
class Forecast:
    city: str
    celsius: float


@tool(effect="reads")
async def forecast(city: str) -> Forecast:
    """A value: structured content for programs, its JSON as text for models."""
    return Forecast(city, 21.5)


@tool(effect="reads")
async def chart(city: str) -> list[Text | Image]:
    """Blocks: the picture is for the person, the text for both."""
    return [Text(f"Temperature in {city}"), Image(PIXEL, notes=Notes(audience=("user",), priority=0.9))]


@tool(effect="reads", returns=Forecast)
async def report(city: str) -> Reply:
    """Both, and a link to more."""
    link = ResourceLink(uri=f"https://weather.example/{city}", name="Details")
    return Reply(content=(Text(f"21.5 degrees in {city}"), link), value=Forecast(city, 21.5))
