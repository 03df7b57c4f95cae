"""Registered tools, their documents and their history."""

from alembic import op
from sqlalchemy import REAL, BigInteger, Column, Double, ForeignKey, Integer, LargeBinary, Text

revision = "0001"
down_revision = None

_SERIAL = BigInteger().with_variant(Integer(), "sqlite")
_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    changes = op.create_table("changes", Column("last", _SERIAL, nullable=False), sqlite_strict=True)
    op.bulk_insert(changes, [{"last": 0}])
    op.create_table(
        "documents",
        Column("digest", Text, primary_key=True),
        Column("content", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    _create_tools()
    _create_events()


def _create_tools() -> None:
    op.create_table(
        "tools",
        Column("id", Text, primary_key=True),
        Column("toolkit", Text, nullable=False),
        Column("tool", Text, nullable=False),
        Column("version", Text, nullable=False),
        Column("dialect", Text, nullable=False),
        Column("document", Text, ForeignKey("documents.digest"), nullable=False, index=True),
        Column("number", Integer, nullable=False),
        Column("model", LargeBinary, nullable=False),
        Column("state", Text, nullable=False),
        Column("deprecated_at", _MOMENT),
        Column("sunset", Text),
        Column("successor", Text),
        Column("origin", Text, nullable=False),
        Column("origin_detail", Text, nullable=False),
        Column("by", Text, nullable=False),
        Column("registered_at", _MOMENT, nullable=False),
        Column("changed_at", _MOMENT, nullable=False),
        Column("shown_digest", Text, nullable=False),
        Column("contract_digest", Text, nullable=False),
        Column("serial", _SERIAL, nullable=False),
        sqlite_strict=True,
    )


def _create_events() -> None:
    op.create_table(
        "events",
        Column("number", _SERIAL, primary_key=True),
        Column("at", _MOMENT, nullable=False),
        Column("by", Text, nullable=False),
        Column("id", Text, nullable=False),
        Column("what", Text, nullable=False),
        Column("detail", Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("ix_events_id_number", "events", ["id", "number"])
