"""Every setting, error and public name is documented."""

import re
from pathlib import Path

import toolhall
from toolhall.authoring.context import Context
from toolhall.authoring.declaration import ToolkitOptions, ToolOptions
from toolhall.config import Config
from toolhall.model import errors

ROOT = Path(__file__).parents[2]
MOST_SETTINGS = 40
SHORTEST_PAGE = 300


def rows(page: str) -> set[str]:
    """The first cell of every table row on a page."""
    return set(re.findall(r"^\| `([^`]+)`", (ROOT / "docs/reference" / page).read_text(), re.MULTILINE))


def endings(kind: type[BaseException]) -> set[str]:
    """Every way a call can end: the classes of the tree, but not its root and its two branches."""
    below = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return {child.__name__ for child in below}.union(*map(endings, below)) - {"Refused", "Failed"}


def test_settings_page_documents_every_setting_with_its_default() -> None:
    assert rows("settings.md") == set(Config.__struct_fields__)
    assert len(Config.__struct_fields__) <= MOST_SETTINGS
    text = (ROOT / "docs/reference/settings.md").read_text()
    for field in Config.__struct_fields__:
        default = getattr(Config(), field)
        if default not in (None, ()) and field not in ("steps", "concurrency"):  # have parts, explained on pages
            said = str(default).lower() if isinstance(default, bool) else default  # as TOML writes it
            assert f"| `{field}` | `{said}` |" in text


def test_errors_page_documents_every_error() -> None:
    assert rows("errors.md") == endings(errors.ToolhallError)


def test_authoring_page_documents_every_option_and_member() -> None:
    page = (ROOT / "docs/reference/authoring.md").read_text()
    members = [name for name in vars(Context) if not name.startswith("_")]
    for name in (*ToolOptions.__annotations__, *ToolkitOptions.__annotations__, *members, "caller", "cancelled"):
        assert f"| `{name}" in page, name


def test_documentation_pages_are_not_empty() -> None:
    assert [page for page in ROOT.glob("docs/**/*.md") if len(page.read_text()) < SHORTEST_PAGE] == []


def test_public_names_exist_and_have_docstrings() -> None:
    for name in toolhall.__all__:
        assert getattr(toolhall, name).__doc__, name
