"""Ids and times for messages of ours, made so that a call hardly pays for them."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

from toolhall.dialects.machine.messages import Stamp


class Stamps:
    """UUIDs that are random at the start and counted from there; times of which the second is written once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = str(uuid.uuid4())[:24]
        self._numbers = count(1)
        self._second = -1
        self._written = ""

    def new(self) -> Stamp:
        """One that no other message has."""
        now = self._clock()
        second = int(now)
        if second != self._second:
            self._second = second
            self._written = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        micros = int((now - second) * 1_000_000)
        return Stamp(f"{self._start}{next(self._numbers):012x}", f"{self._written}.{micros:06}+00:00")
