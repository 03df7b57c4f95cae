"""On which terms a hall is opened: alone or beside other processes, and whether code is held to its versions."""

import msgspec

from toolhall.stores.lock import Family


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """By default a hall has its folder to itself, and what it serves keeps its promises."""

    share: bool = False  # where another process writes, reading is enough
    family: Family | None = None  # of several processes that serve it, which all may write
    hold: bool = True
    frozen: str | None = None  # why tools may not be changed while it runs
    refusal: str = "another process writes to this hall's data folder; make the change there, or stop that one first"


ALONE = Terms()
