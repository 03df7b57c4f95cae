"""The page of lint rules is made from the rules; UPDATE_DOCS=1 writes it anew."""

import os
from pathlib import Path

from toolhall.dialects.lint.linter import ALL_RULES

PAGE = Path(__file__).parents[2] / "docs/reference/lint.md"
HEAD = """# Lint rules

Findings of [`toolhall lint`](command-line.md#toolhall-lint) beside the errors of a dialect itself. Those are named
after the dialect (`mcp/missing`, `oxp/description`), syntax errors `json/malformed`; each finding names the fix.
See [How to check definitions](../how-to/convert.md#checking).

An error refuses a definition, a warning does not. The rules `text/...` and `poison/...` check every string of a
document, because a model may read any of them.

| rule | severity | what is wrong | fix |
|---|---|---|---|
"""


def test_lint_rules_page_equals_the_rules() -> None:
    rows = (
        f"| `{rule.id}` | {rule.severity} | {rule.summary} | {rule.fix} |\n"
        for rule in sorted(ALL_RULES, key=lambda each: each.id)
    )
    page = HEAD + "".join(rows)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "run the tests in tests/docs once with UPDATE_DOCS=1"
