"""Stamps: ids that never repeat and look like UUIDs, times to the microsecond."""

import uuid
from datetime import UTC, datetime

from toolhall.http.errors import MessageIds


def test_message_ids_are_unique_uuids() -> None:
    stamps = [MessageIds(lambda: 0.0) for _ in range(2)]
    ids = [each.new().message_id for each in stamps for _ in range(100)]
    assert len(set(ids)) == 200
    assert all(str(uuid.UUID(each)) == each for each in ids)


def test_message_times_match_clock() -> None:
    for now in (0.0, 1_700_000_000.25, 1_700_000_000.75, 1_699_999_999.5, 1_700_000_001.000_001):
        written = MessageIds(lambda now=now: now).new().timestamp  # type: ignore[misc]
        assert abs((datetime.fromisoformat(written) - datetime.fromtimestamp(now, UTC)).total_seconds()) <= 1e-6


def test_message_times_advance() -> None:
    times = iter([5.25, 5.5, 6.0])
    stamps = MessageIds(lambda: next(times))
    assert [stamps.new().timestamp[17:26] for _ in range(3)] == ["05.250000", "05.500000", "06.000000"]
