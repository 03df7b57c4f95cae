"""Connected accounts, and the links that connect them."""

from alembic import op
from sqlalchemy import REAL, BigInteger, Column, Double, Integer, LargeBinary, Text

revision = "0005"
down_revision = "0004"

_SERIAL = BigInteger().with_variant(Integer(), "sqlite")
_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    _create_accounts()
    _create_links()


def _create_accounts() -> None:
    op.create_table(
        "accounts",
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
        sqlite_strict=True,
    )
    op.create_index("ix_accounts_user_provider", "accounts", ["user", "provider"], unique=True)


def _create_links() -> None:
    op.create_table(
        "account_links",
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
        sqlite_strict=True,
    )
    op.create_index("ix_account_links_caller_state", "account_links", ["caller", "state"])
    op.create_index("ix_account_links_state_expires", "account_links", ["state", "expires"])
