"""Secrets, and the keys that seal them."""

from alembic import op
from sqlalchemy import REAL, Column, Double, LargeBinary, Text

revision = "0004"
down_revision = "0003"

_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "data_keys",
        Column("id", Text, primary_key=True),
        Column("tenant", Text, nullable=False),
        Column("use", Text, nullable=False),
        Column("kek", Text, nullable=False),
        Column("wrapped", LargeBinary, nullable=False),
        Column("created_at", _MOMENT, nullable=False),
        Column("mac", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "secrets",
        Column("id", Text, primary_key=True),
        Column("name", Text, nullable=False),
        Column("user", Text, nullable=False),
        Column("sealed", LargeBinary, nullable=False),
        Column("dek", Text, nullable=False),
        Column("hint", Text, nullable=False),
        Column("by", Text, nullable=False),
        Column("created_at", _MOMENT, nullable=False),
        Column("changed_at", _MOMENT, nullable=False),
        Column("mac", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("ix_secrets_user_name", "secrets", ["user", "name"], unique=True)
