"""API keys and grants, and a code over every row that decides who may do what."""

from alembic import op
from sqlalchemy import REAL, Column, Double, Integer, LargeBinary, Text

revision = "0002"
down_revision = "0001"

_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Make the tables; whoever runs this signs what is there already."""
    op.add_column("tools", Column("mac", LargeBinary))
    op.create_table(
        "api_keys",
        Column("id", Text, primary_key=True),
        Column("name", Text, nullable=False),
        Column("owner", Text),
        Column("shared", Integer, nullable=False),
        Column("scopes", Text, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        Column("created_at", _MOMENT, nullable=False),
        Column("expires_at", _MOMENT),
        Column("last_used_at", _MOMENT),
        Column("revoked_at", _MOMENT),
        Column("by", Text, nullable=False),
        Column("mac", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "grants",
        Column("id", Text, primary_key=True),
        Column("effect", Text, nullable=False),
        Column("callers", Text, nullable=False),
        Column("tools", Text, nullable=False),
        Column("conditions", Text, nullable=False),
        Column("created_at", _MOMENT, nullable=False),
        Column("by", Text, nullable=False),
        Column("mac", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "seals",
        Column("name", Text, primary_key=True),
        Column("mac", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
