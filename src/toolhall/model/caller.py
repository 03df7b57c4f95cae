"""Who asks, as proven by the transport."""

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """A proven identity; `id` is what limits, grants and records refer to."""

    id: str
    local: bool = False


LOCAL = Caller("local", local=True)
