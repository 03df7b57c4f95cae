"""The tables that the statements work on; `migrations/` makes them, and a test holds the two together."""

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

# SQLite's strict tables know these two by other names.
_SERIAL = BigInteger().with_variant(Integer(), "sqlite")
_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")

METADATA = MetaData()

# One row. Raising its number comes first in every change, so that of two writers one waits for the other.
changes = Table("changes", METADATA, Column("last", _SERIAL, nullable=False), sqlite_strict=True)

# Apart from the tools: a document of a megabyte may hold thousands of them.
documents = Table(
    "documents",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    sqlite_strict=True,
)

tools = Table(
    "tools",
    METADATA,
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
    Column("mac", LargeBinary),
    sqlite_strict=True,
)

# No foreign key: history outlives its tool.
events = Table(
    "events",
    METADATA,
    Column("number", _SERIAL, primary_key=True),
    Column("at", _MOMENT, nullable=False),
    Column("by", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_events_id_number", "id", "number"),
    sqlite_strict=True,
)

# `mac` is a code over the other columns, which only a hall with the folder's key can make.
api_keys = Table(
    "api_keys",
    METADATA,
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

grants = Table(
    "grants",
    METADATA,
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

# What must not lose a row: a code over all rows of `name` that were there after its last change.
seals = Table(
    "seals",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)

# What is known of the audit: one row, made with the table, so that one that is missing was removed.
audit_anchors = Table(
    "audit_anchors",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("public", Text, nullable=False),
    Column("marks", Text, nullable=False),
    Column("accepted", Text, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)

used_states = Table(
    "used_states",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("caller", Text, nullable=False, index=True),
    Column("expires", _MOMENT, nullable=False, index=True),
    sqlite_strict=True,
)
