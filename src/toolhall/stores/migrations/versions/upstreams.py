"""Remembered upstreams: one row for each server of somebody else."""

from alembic import op
from sqlalchemy import REAL, BigInteger, Column, Double, Integer, LargeBinary, Text

revision = "0009"
down_revision = "0008"

_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")
_COUNT = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "upstreams",
        Column("id", Text, primary_key=True),
        Column("settings", Text),
        Column("era", Text),
        Column("revision", Text),
        Column("server_name", Text),
        Column("server_version", Text),
        Column("listing_digest", Text),
        Column("off", Integer, nullable=False),
        Column("by", Text, nullable=False),
        Column("added_at", _MOMENT, nullable=False),
        Column("changed_at", _MOMENT, nullable=False),
        Column("serial", _COUNT, nullable=False),
        Column("mac", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
