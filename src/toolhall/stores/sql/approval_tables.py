"""The tables of approvals and of the factors that people prove themselves with."""

from sqlalchemy import REAL, BigInteger, Column, Double, Index, Integer, LargeBinary, Table, Text

from toolhall.stores.sql.tables import METADATA

_SERIAL = BigInteger().with_variant(Integer(), "sqlite")
_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")

approvals = Table(
    "approvals",
    METADATA,
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
    Column("code_sha256", Text, nullable=False, server_default=""),
    Index("ix_approvals_caller_state", "caller", "state"),
    Index("ix_approvals_state_expires", "state", "expires"),
    Index("ix_approvals_expires", "expires"),
    sqlite_strict=True,
)

factors = Table(
    "factors",
    METADATA,
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

# Wrong codes, so that nobody guesses one by trying them all.
tries = Table(
    "factor_tries",
    METADATA,
    Column("number", _SERIAL, primary_key=True),
    Column("person", Text, nullable=False, index=True),
    Column("at", _MOMENT, nullable=False),
    sqlite_strict=True,
)
