"""Database migrations: one module in `versions/` per revision, and upgrade, which runs them with Alembic.

Alembic runs without a command line or configuration file and prints nothing. Importing this package loads Alembic.
"""

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

_ALEMBIC_LOCK = threading.Lock()  # Alembic keeps the current migration context in global variables


def upgrade(connection: Connection) -> None:
    """Migrate the tables to the newest revision, inside the connection's current transaction."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    with _ALEMBIC_LOCK:
        command.upgrade(config, "head")
