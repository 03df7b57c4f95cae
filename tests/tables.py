"""Runs a pure check on every row of a table as subtests of one test (each_row)."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

Check = Callable[..., None]


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Check], Callable[[pytest.Subtests], None]]:
    """Make one test of a check that takes no fixtures, with the arguments of `pytest.mark.parametrize`.

    A table of hundreds of rows is collected once, and every failing row is still reported with its values.
    """
    columns = (names,) if isinstance(names, str) else tuple(names)
    table = [_values(row, single=isinstance(names, str)) for row in rows]
    assert table, "the table is empty"

    def decorate(check: Check) -> Callable[[pytest.Subtests], None]:
        def test(subtests: pytest.Subtests) -> None:
            for number, values in enumerate(table):
                with subtests.test(
                    msg=str(number), **{name: repr(value)[:200] for name, value in zip(columns, values, strict=True)}
                ):
                    check(*values)

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__doc__, test.__module__ = check.__doc__, check.__module__
        return test

    return decorate


def _values(row: Any, *, single: bool) -> tuple[Any, ...]:
    if hasattr(row, "values") and hasattr(row, "marks"):  # pytest.param
        assert not row.marks, "marks belong to parametrize"
        return tuple(row.values)
    return (row,) if single else tuple(row)
