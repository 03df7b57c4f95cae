"""The tables of connected accounts and of the links that connect them."""

from sqlalchemy import REAL, BigInteger, Column, Double, Index, Integer, LargeBinary, Table, Text

from toolhall.stores.sql.tables import METADATA

_SERIAL = BigInteger().with_variant(Integer(), "sqlite")
_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")

accounts = Table(
    "accounts",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("expires_at", _MOMENT),
    Column("state", Text, nullable=False),
    Column("created_at", _MOMENT, nullable=False),
    Column("refreshed_at", _MOMENT),
    Column("serial", _SERIAL, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    Index("ix_accounts_user_provider", "user", "provider", unique=True),
    sqlite_strict=True,
)

links = Table(
    "account_links",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("caller", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("tool", Text),
    Column("sealed", LargeBinary, nullable=False),
    Column("browser", Text, nullable=False),
    Column("how", Text, nullable=False),
    Column("created", _MOMENT, nullable=False),
    Column("expires", _MOMENT, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("mac", LargeBinary, nullable=False),
    Index("ix_account_links_caller_state", "caller", "state"),
    Index("ix_account_links_state_expires", "state", "expires"),
    sqlite_strict=True,
)
