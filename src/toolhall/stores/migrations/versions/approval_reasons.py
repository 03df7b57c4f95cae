"""The reason that a person gave for a no."""

from alembic import op
from sqlalchemy import Column, Text

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the column of approvals."""
    op.add_column("approvals", Column("reason", Text))
