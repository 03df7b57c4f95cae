"""Tables for people; text from elsewhere is never markup, and nothing hides in it."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from toolhall.cli.pages import cell, page

_STYLES = {"active": "green", "quarantined": "yellow", "inactive": "dim"}


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """One line for each; the last column may be broken."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=heading != headings[-1])
    for row in rows:
        table.add_row(*(cell(each, _STYLES.get(each, "")) for each in row))
    page().print(table)
