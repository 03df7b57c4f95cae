"""What an OXP tool needs before it may run; unknown members are kept."""

from toolhall.dialects.findings import Reading
from toolhall.model.json import Json, JsonObject


def read_requirements(reading: Reading, requirements: Json, path: str) -> JsonObject | None:
    """The requirements as they are, or None where there are none."""
    if requirements is None:
        return None
    known = reading.object(requirements, path)
    for key in ("authorization", "secrets"):
        for index, listed in enumerate(reading.items(known.get(key, []), f"{path}/{key}")):
            reading.text(reading.object(listed, f"{path}/{key}/{index}"), "id", f"{path}/{key}/{index}")
    if not isinstance(known.get("user_id", False), bool):
        reading.fault(f"{path}/user_id", "not-boolean", "write true or false")
    return known
