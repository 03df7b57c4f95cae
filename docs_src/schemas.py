"""How parameters are described, bounded and defaulted."""

from typing import Annotated, Literal

from msgspec import Meta

from toolhall import Icon, tool


@tool(
    title="Find flights",
    effect="reads",
    tags=("travel",),
    icons=(Icon(src="https://flights.example/icon.png", mime_type="image/png"),),
    timeout=10,
    level=2,
)
async def find_flights(
    origin: Annotated[str, Meta(description="Airport code", pattern="^[A-Z]{3}$")],
    destination: Annotated[str, Meta(description="Airport code", pattern="^[A-Z]{3}$")],
    passengers: Annotated[int, Meta(description="How many seats", ge=1, le=9)] = 1,
    cabin: Literal["economy", "business"] = "economy",
) -> list[str]:
    """Find flights between two airports."""
    return [f"{origin}-{destination} {cabin} x{passengers}"]
