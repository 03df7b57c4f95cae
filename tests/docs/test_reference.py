"""Every setting, error and public name is documented."""

import re
from pathlib import Path

import toolhall
from toolhall.authoring.context import Context
from toolhall.authoring.declaration import RequirementOptions, ToolkitOptions, ToolOptions
from toolhall.authoring.prompt import PromptOptions
from toolhall.authoring.resource import ResourceOptions
from toolhall.config import Config
from toolhall.model import errors
from toolhall.setting_descriptions import DESCRIPTIONS, plain_description
from toolhall.testing import Client

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
        if default not in (None, ()) and field not in ("steps", "concurrency", "log"):  # have parts, explained on pages
            said = str(default).lower() if isinstance(default, bool) else default  # as TOML writes it
            assert f"| `{field}` | `{said}` |" in text


def test_settings_page_says_what_the_console_says() -> None:
    text = (ROOT / "docs/reference/settings.md").read_text()
    assert dict(re.findall(r"^\| `([^`]+)` \|[^|]*\| (.*) \|$", text, re.MULTILINE)) == DESCRIPTIONS
    for name in DESCRIPTIONS:
        assert "](" not in plain_description(name), "links lead nowhere from the console"


def test_errors_page_documents_every_error() -> None:
    assert rows("errors.md") == endings(errors.ToolhallError)


def test_authoring_page_documents_every_option_and_member() -> None:
    page = (ROOT / "docs/reference/authoring.md").read_text()
    members = [name for name in vars(Context) if not name.startswith("_")]
    for name in (*ToolOptions.__annotations__, *ToolkitOptions.__annotations__, *members, "caller", "cancelled"):
        assert f"| `{name}" in page, name
    parts = page.split("\n## ")
    (resource,) = (part for part in parts if part.startswith("`@resource("))
    for name in (*ResourceOptions.__annotations__, *RequirementOptions.__annotations__):
        assert f"`{name}`" in resource, name
    (prompt,) = (part for part in parts if part.startswith("`@prompt("))
    unlike = set(ToolOptions.__annotations__) - set(PromptOptions.__annotations__)
    assert set(re.findall(r"`(\w+)`", prompt.partition("of a tool without")[2].partition(". ")[0])) == unlike
    (client,) = (part for part in parts if part.startswith("`toolhall.testing.Client`"))
    protocols = {"hall", "emit", "can", "ask", "detach", "approve", "waits_for_tasks"}  # of the hall's side
    own = {name for name in vars(Client) if not name.startswith("_")} - protocols
    assert [name for name in own if f"`{name}(" not in client] == []


def test_documentation_pages_are_not_empty() -> None:
    assert [page for page in ROOT.glob("docs/**/*.md") if len(page.read_text()) < SHORTEST_PAGE] == []


def test_public_names_exist_and_have_docstrings() -> None:
    for name in toolhall.__all__:
        assert getattr(toolhall, name).__doc__, name
