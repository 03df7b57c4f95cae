"""On which terms a hall is opened: alone or beside other processes, and whether code is held to its versions."""

import msgspec

from toolhall.stores.lock import Family


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """By default a hall has its folder to itself, and what it serves keeps its promises."""

    share: bool = False  # where another process has the folder alone, reading is enough
    family: Family | None = None  # of several processes that serve from the folder, which all may write
    beside: bool = False  # where another process changes the folder's tools, this one leaves them as they are
    briefly: bool = False  # others may wait until it lets go
    leaves_tools: bool = False  # once the hall is open, another process may change the tools
    hold: bool = True
    frozen: str | None = None  # why tools may not be changed while it runs
    refusal: str = "another process writes to this hall's data folder; make the change there, or stop that one first"


ALONE = Terms()


def over_stdio(dialect: str, *, hold: bool = True) -> Terms:
    """Every client starts a process of its own, so these share the folder with whoever serves from it.

    MCP has no way to register tools; the other dialects have, so there the process keeps that right while it runs.
    """
    mcp = dialect == "mcp"
    return Terms(share=True, family="peer", beside=True, briefly=mcp, leaves_tools=mcp, hold=hold)


def for_command(*, changing: bool, alone: bool = False) -> Terms:
    """A command on a folder: it works beside processes over stdio, and what it changes they take over.

    Where a server runs, that one is asked. `alone` is for what no other process may be surprised by.
    """
    if alone:
        return Terms(hold=False, briefly=True)
    return Terms(share=not changing, family="peer", beside=not changing, hold=False, briefly=True)
