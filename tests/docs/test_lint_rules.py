"""The page of lint rules is made from the rules; UPDATE_DOCS=1 writes it anew."""

import os
from pathlib import Path

from toolhall.dialects.lint.linter import ALL_RULES

PAGE = Path(__file__).parents[2] / "docs/reference/lint.md"
HEAD = """# Lint rules

What [`toolhall lint`](command-line.md#toolhall-lint) finds beside what a dialect itself refuses. Those errors are named
after the dialect (`mcp/missing`, `oxp/description`), those of JSON itself `json/malformed`; each says what to change.
[How to check definitions](../how-to/convert.md#checking) says how to use it.

An error refuses a definition, a warning does not. Rules named `text/` and `poison/` look at every text of a document,
wherever it stands, because a model may get to read it.

| rule | severity | what is wrong | fix |
|---|---|---|---|
"""


def test_the_page_is_made_from_the_rules() -> None:
    rows = (
        f"| `{rule.id}` | {rule.severity} | {rule.summary} | {rule.fix} |\n"
        for rule in sorted(ALL_RULES, key=lambda each: each.id)
    )
    page = HEAD + "".join(rows)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "run the tests in tests/docs once with UPDATE_DOCS=1"
