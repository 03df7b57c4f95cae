"""Runs Alembic from the program: no command line, no configuration file, nothing printed."""

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

_ALONE = threading.Lock()  # Alembic keeps its place in global variables


def upgrade(connection: Connection) -> None:
    """Bring the tables to the newest revision, inside the transaction that the connection is in."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    with _ALONE:
        command.upgrade(config, "head")
