"""How long a connection may keep the server waiting, and for what."""

import msgspec

ENOUGH_BYTES = 64 * 1024  # taken within one `stall`: whoever reads at least so fast is slow, and not stuck


class Deadlines(msgspec.Struct, frozen=True):
    """Seconds, counted from the first look that finds a connection waiting for the same thing."""

    silent: float = 5.0  # from the connection to the first byte
    head: float = 10.0  # for the request line and the headers, however they trickle in
    body: float = 30.0
    idle: float = 5.0  # between two requests
    stall: float = 30.0  # while what was written is not read
    close: float = 5.0  # from our closing of a WebSocket until its client has answered


class Wait:
    """What one connection was last seen waiting for, and since when."""

    __slots__ = ("_for", "_of", "_since", "_unread")

    def __init__(self) -> None:
        self._for = ""
        self._of: object = None
        self._since = 0.0
        self._unread = 0

    def begins(self, wait: str, of: object, now: float, unread: int = 0) -> bool:
        """Note it; False if it waits for the same thing as before, of the same request."""
        if wait == self._for and of is self._of:
            return False
        self._for, self._of, self._since, self._unread = wait, of, now, unread
        return True

    def longer_than(self, seconds: float, now: float) -> bool:
        """Whether that has lasted so long."""
        return now - self._since >= seconds

    def stuck(self, seconds: float, unread: int, now: float) -> bool:
        """Whether nearly nothing of what was written has been read for so long."""
        if not self.longer_than(seconds, now):
            return False
        if self._unread - unread >= ENOUGH_BYTES:
            self._since, self._unread = now, unread
            return False
        return True
