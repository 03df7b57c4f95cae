"""What the store knows of the audit, the request states that were used, and the code that an approval is bound to."""

from alembic import op
from sqlalchemy import REAL, Column, Double, LargeBinary, Text

revision = "0006"
down_revision = "0005"

_MOMENT: Double[float] = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Make the tables, and the column of approvals."""
    op.create_table(
        "audit_anchors",
        Column("id", Text, primary_key=True),
        Column("public", Text, nullable=False),
        Column("marks", Text, nullable=False),
        Column("accepted", Text, nullable=False),
        Column("mac", LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "used_states",
        Column("id", Text, primary_key=True),
        Column("caller", Text, nullable=False, index=True),
        Column("expires", _MOMENT, nullable=False, index=True),
        sqlite_strict=True,
    )
    op.add_column("approvals", Column("code_sha256", Text, nullable=False, server_default=""))
