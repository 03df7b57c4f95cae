"""The tools of `kit.py`, every call in a worker process."""

from tests.interfaces.running import kit


class Kit(kit.Kit, name="Kit", isolated=True):
    """One tool for everything that may go differently in another process."""


class First(kit.First, name="Pair", isolated=True):
    """The version before."""


class Second(kit.Second, name="Pair", isolated=True):
    """The version of today."""
