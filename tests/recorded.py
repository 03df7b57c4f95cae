"""The records in a data folder, as whoever reads the audit sees them."""

from pathlib import Path
from typing import Any

import msgspec

from toolhall.stores.audit.query import iter_oldest_first


def recorded(data: Path) -> list[dict[str, Any]]:
    """Every record, the oldest first; none where no call was made yet."""
    return [msgspec.to_builtins(found.record) for found in iter_oldest_first(data, lambda _: None)]
