"""The pages on architecture and the gateway list the files that real requests cross; UPDATE_DOCS=1 writes them anew."""

import ast
import os
import re
from pathlib import Path

import pytest

from tests.harness.call_trace import SOURCE, TRACES, PathTrace

PAGES = [Path(__file__).parents[2] / "docs/explanation" / name for name in ("architecture.md", "gateway.md")]
LISTED = re.compile(r"<!-- path: (?P<name>[^>]+) -->\n(?P<list>.*?)<!-- end -->", re.DOTALL)


def entry(number: int, file: str) -> str:
    """One line of a list: the file, and what its docstring says that it provides."""
    docstring = ast.get_docstring(ast.parse((SOURCE / file).read_text(encoding="utf-8"))) or ""
    return f"{number}. `{file}`: {docstring.splitlines()[0]}"


def rendered(trace: PathTrace) -> str:
    return "\n" + "\n".join(entry(number, file) for number, file in enumerate(trace.files, start=1)) + "\n\n"


def listed_names() -> dict[str, Path]:
    """The names of all lists, with their pages."""
    return {match["name"]: page for page in PAGES for match in LISTED.finditer(page.read_text(encoding="utf-8"))}


def test_pages_list_the_traced_paths() -> None:
    assert set(listed_names()) <= set(TRACES)
    assert set(TRACES) - set(listed_names()) == {"REST call"}


@pytest.mark.parametrize("name", listed_names())
async def test_listed_path_is_what_a_request_crosses(name: str) -> None:
    trace, file = await TRACES[name](), listed_names()[name]
    page = file.read_text(encoding="utf-8")
    found = next(match for match in LISTED.finditer(page) if match["name"] == name)
    if os.environ.get("UPDATE_DOCS"):
        page = page[: found.start("list")] + rendered(trace) + page[found.end("list") :]
        file.write_text(page, encoding="utf-8")
        found = next(match for match in LISTED.finditer(page) if match["name"] == name)
    assert re.findall(r"`([a-z_/]+\.py)`:", found["list"]) == list(trace.files), (
        "run tests/docs once with UPDATE_DOCS=1"
    )
