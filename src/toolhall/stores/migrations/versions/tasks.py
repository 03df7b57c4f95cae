"""Long calls: one row for each task."""

from alembic import op
from sqlalchemy import REAL, Column, Double, Index, Integer, LargeBinary, Text

revision = "0008"
down_revision = "0007"

_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "tasks",
        Column("id", Text, primary_key=True),
        Column("owner", Text, nullable=False),
        Column("user_id", Text),
        Column("tool", Text, nullable=False),
        Column("dialect", Text, nullable=False),
        Column("state", Text, nullable=False),
        Column("sealed_call", LargeBinary, nullable=False),
        Column("sealed_memory", LargeBinary),
        Column("sealed_status", LargeBinary),
        Column("sealed_result", LargeBinary),
        Column("attempt", Integer, nullable=False),
        Column("holder", Text),
        Column("epoch", Integer, nullable=False),
        Column("serial", Integer, nullable=False),
        Column("lease_until", _MOMENT, nullable=False),
        Column("created_at", _MOMENT, nullable=False),
        Column("updated_at", _MOMENT, nullable=False),
        Column("expires_at", _MOMENT, nullable=False),
        Column("poll_ms", Integer, nullable=False),
        Column("mac", LargeBinary, nullable=False),
        Index("ix_tasks_owner_state", "owner", "state"),
        Index("ix_tasks_state_holder", "state", "holder"),
        Index("ix_tasks_expires_at", "expires_at"),
        sqlite_strict=True,
    )
