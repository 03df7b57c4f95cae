"""The tables of secrets and of the keys that seal them."""

from sqlalchemy import REAL, Column, Double, Index, LargeBinary, Table, Text

from toolhall.stores.sql.tables import METADATA

_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")

data_keys = Table(
    "data_keys",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("use", Text, nullable=False),
    Column("kek", Text, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("created_at", _MOMENT, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)

# `user` is empty for what is the hall's: of nulls, an index would take any number.
secrets = Table(
    "secrets",
    METADATA,
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
    Index("ix_secrets_user_name", "user", "name", unique=True),
    sqlite_strict=True,
)
