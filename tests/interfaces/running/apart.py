"""The tools of `kit.py`, every call in a worker process."""

from tests.interfaces.running import kit


class Kit(kit.Kit, name="Kit", isolated=True):
    """One tool for everything that may go differently in another process."""


class First(kit.First, name="Pair", isolated=True):
    """The version before."""


class Second(kit.Second, name="Pair", isolated=True):
    """The version of today."""


class Library(kit.Library, name="Library", isolated=True):
    """Books: what is read, said and completed, in a worker process."""
