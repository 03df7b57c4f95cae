"""A house: one tool in each band of security levels, which only pretend."""

from collections import deque
from typing import Annotated, Literal

from toolhall import Toolkit, tool

_MAX_NOTES = 20


class House(Toolkit, version="1.0.0", tags=["levels"]):
    """From the garden gate to the vault: the further in, the higher the level."""

    def __init__(self) -> None:
        self._notes: deque[str] = deque(maxlen=_MAX_NOTES)

    @tool(name="Look", level=0, effect="reads")
    async def look(self) -> str:
        """Looks at the house from the street (level 0: anybody may)."""
        return f"A house with a green door. Notes on the door: {len(self._notes)}."

    @tool(name="LeaveNote", level=3, effect="writes")
    async def leave_note(self, text: Annotated[str, "What the note says."]) -> str:
        """Leaves a note on the door (levels 1 to 3: known callers)."""
        self._notes.append(text)
        return f"The note hangs on the door, with {len(self._notes) - 1} others."

    @tool(name="Unlock", level=6, effect="writes")
    async def unlock(self, door: Annotated[Literal["front", "back"], "Which door to unlock."]) -> str:
        """Unlocks a door (levels 4 to 7: callers who were allowed to)."""
        return f"The {door} door is unlocked."

    @tool(name="OpenVault", level=9, effect="destroys")
    async def open_vault(self, vault: Annotated[str, "The name of the vault to open."]) -> str:
        """Opens a vault (levels 8 to 10: a person must agree to each call)."""
        return f"The vault {vault!r} is open."
