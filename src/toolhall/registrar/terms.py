"""On which terms a hall is opened: alone or beside other processes, and whether code is held to its versions."""

import msgspec

from toolhall.stores.lock import Family


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """By default a hall has its folder to itself, and what it serves keeps its promises."""

    share: bool = False  # where another process has the folder alone, reading is enough
    family: Family | None = None  # of several processes that serve from the folder, which all may write
    beside: bool = False  # where another process changes the folder's tools, this one leaves them as they are
    briefly: bool = False  # others may wait for it: a command, or in a family who changes tools only while it opens
    hold: bool = True
    frozen: str | None = None  # why tools may not be changed while it runs
    refusal: str = "another process writes to this hall's data folder; make the change there, or stop that one first"

    @property
    def leaves_tools(self) -> bool:
        """Whether tools stay as they are once the hall is open, so that another process may change them."""
        return self.briefly and self.family is not None


ALONE = Terms()


def over_stdio(dialect: str, *, hold: bool = True) -> Terms:
    """Every client starts a process of its own, so these share the folder with whoever serves from it.

    MCP has no way to register tools; the other dialects have, so there the process keeps that right while it runs.
    """
    return Terms(share=True, family="peer", beside=True, briefly=dialect == "mcp", hold=hold)
