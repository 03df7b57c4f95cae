"""Approvals of calls, and the factors that people prove themselves with."""

from alembic import op
from sqlalchemy import REAL, BigInteger, Column, Double, Integer, LargeBinary, Text

revision = "0003"
down_revision = "0002"

_SERIAL = BigInteger().with_variant(Integer(), "sqlite")
_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    _create_approvals()
    _create_factors()
    op.create_table(
        "factor_tries",
        Column("number", _SERIAL, primary_key=True),
        Column("person", Text, nullable=False, index=True),
        Column("at", _MOMENT, nullable=False),
        sqlite_strict=True,
    )


def _create_approvals() -> None:
    op.create_table(
        "approvals",
        Column("id", Text, primary_key=True),
        Column("how", Text, nullable=False),
        Column("caller", Text, nullable=False),
        Column("person", Text, nullable=False),
        Column("acting_for", Text),
        Column("tool", Text, nullable=False),
        Column("definition_sha256", Text, nullable=False),
        Column("arguments_sha256", Text, nullable=False),
        Column("shown", LargeBinary, nullable=False),
        Column("level", Integer, nullable=False),
        Column("effect", Text),
        Column("dialect", Text, nullable=False),
        Column("created", _MOMENT, nullable=False),
        Column("expires", _MOMENT, nullable=False),
        Column("state", Text, nullable=False),
        Column("approver", Text),
        Column("method", Text),
        Column("decided_at", _MOMENT),
        Column("mac", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("ix_approvals_caller_state", "approvals", ["caller", "state"])
    op.create_index("ix_approvals_state_expires", "approvals", ["state", "expires"])
    op.create_index("ix_approvals_expires", "approvals", ["expires"])


def _create_factors() -> None:
    op.create_table(
        "factors",
        Column("id", Text, primary_key=True),
        Column("person", Text, nullable=False, index=True),
        Column("kind", Text, nullable=False),
        Column("secret", Text, nullable=False),
        Column("by", Text, nullable=False),
        Column("created_at", _MOMENT, nullable=False),
        Column("expires", _MOMENT),
        Column("counter", _SERIAL, nullable=False),
        Column("used_at", _MOMENT),
        Column("mac", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
