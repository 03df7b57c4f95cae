import sqlite3
from pathlib import Path
from typing import Self

from toolhall import Toolkit, tool


class Notes(Toolkit):
    """Keep notes in a database."""

    _database: sqlite3.Connection

    def __init__(self, file: Path = Path("notes.db")) -> None:
        self._file = file

    async def __aenter__(self) -> Self:
        self._database = sqlite3.connect(self._file, check_same_thread=False)
        self._database.execute("CREATE TABLE IF NOT EXISTS notes (text)")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._database.close()

    @tool(effect="writes")
    def add(self, text: str) -> int:
        """Keep a note; returns how many there are."""
        with self._database:
            self._database.execute("INSERT INTO notes VALUES (?)", [text])
        return len(self.all())

    @tool(effect="reads")
    def all(self) -> list[str]:
        """Read every note."""
        return [text for (text,) in self._database.execute("SELECT text FROM notes")]
