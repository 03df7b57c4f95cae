"""Rows of a table by the names of their columns."""

from typing import Any

from sqlalchemy import Connection, Select


def rows_of(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Each row by the names of its columns."""
    found = connection.execute(query)
    names = [str(name) for name in tuple(found.keys())]
    return [dict(zip(names, row, strict=True)) for row in found]
