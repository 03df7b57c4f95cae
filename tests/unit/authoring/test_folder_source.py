"""A Folder in a hall: its definition, the files that are listed, and what is read of them."""

import asyncio
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.harness.local_mcp import McpError, ask, listed
from toolhall import BadDeclaration, Folder, Notes, Toolhall, Toolkit, resource
from toolhall.config import Config

MANUALS = "shop://manuals/{+path}"


@pytest.fixture
def manuals(tmp_path: Path) -> Path:
    folder = tmp_path / "manuals"
    (folder / "a").mkdir(parents=True)
    (folder / "a/setup guide.md").write_text("# Setup\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\x00")
    return folder


def hall_of(directory: Path, uri: str = MANUALS, **options: Any) -> Toolhall:
    """A hall with one Folder, as an attribute of a toolkit."""

    class Shop(Toolkit, version="1.2.0", level=1, tags=["shop"]):
        """Orders and manuals."""

        manuals = Folder(uri, directory, **options)

        @resource("shop://policy")
        async def policy(self) -> str:
            """Our rules."""
            return "Be kind."

    return Toolhall(Shop)


async def test_definition_is_a_template_of_its_toolkit(manuals: Path) -> None:
    options: dict[str, Any] = {"title": "Manuals", "tags": ["docs"], "level": 0, "fresh": 60, "shared": True}
    with hall_of(manuals, **options) as hall:
        entry = hall.registry.snapshot.resources.find("Shop.manuals@1.2.0")
        assert entry is not None
        tool = entry.tool
        assert (tool.name, tool.title, tool.level, tool.tags) == ("Shop_manuals", "Manuals", 0, ("shop", "docs"))
        assert tool.description == "The files below shop://manuals/"
        assert tool.about.description == "Orders and manuals."
        (template,) = await listed(hall, "resources/templates/list", "resourceTemplates")
        assert (template["uriTemplate"], template["name"]) == (MANUALS, "Shop_manuals")


async def test_files_are_listed_and_read(manuals: Path) -> None:
    with hall_of(manuals, fresh=60, shared=True, notes=Notes(priority=0.5)) as hall:
        files = {each["uri"]: each for each in await listed(hall, "resources/list", "resources")}
        assert list(files) == ["shop://manuals/a/setup%20guide.md", "shop://manuals/logo.png", "shop://policy"]
        guide = files["shop://manuals/a/setup%20guide.md"]
        assert (guide["name"], guide["mimeType"], guide["size"]) == ("a/setup guide.md", "text/markdown", 8)
        assert guide["annotations"]["priority"] == 0.5
        assert guide["annotations"]["lastModified"].endswith("Z")
        assert guide["_meta"]["dev.toolhall/id"] == "Shop.manuals@1.2.0"
        read = await ask(hall, "resources/read", uri="shop://manuals/a/setup%20guide.md")
        assert read["contents"] == [
            {"uri": "shop://manuals/a/setup%20guide.md", "mimeType": "text/markdown", "text": "# Setup\n"}
        ]
        assert (read["ttlMs"], read["cacheScope"]) == (60_000, "private")
        (logo,) = (await ask(hall, "resources/read", uri="shop://manuals/logo.png"))["contents"]
        assert (logo["mimeType"], logo["blob"]) == ("image/png", "iVBORwA=")


async def test_list_is_current_at_each_request(manuals: Path) -> None:
    async def sizes() -> dict[str, int]:
        files = await listed(hall, "resources/list", "resources")
        return {each["name"]: each["size"] for each in files if "size" in each}

    with hall_of(manuals) as hall:
        assert await sizes() == {"a/setup guide.md": 8, "logo.png": 5}
        (manuals / "new.txt").write_text("new")
        (manuals / "a/setup guide.md").write_text("# Set up\n")
        (manuals / "logo.png").unlink()
        assert await sizes() == {"a/setup guide.md": 9, "new.txt": 3}


async def test_snapshot_stays_while_files_do(manuals: Path) -> None:
    with hall_of(manuals) as hall:
        before = hall.registry.snapshot
        await ask(hall, "resources/list")
        assert hall.registry.snapshot is before
        (manuals / "new.txt").write_text("new")
        await ask(hall, "resources/list")
        assert hall.registry.snapshot is not before


@pytest.mark.parametrize("uri", [
    "shop://manuals/missing.md", "shop://manuals/../secret", "shop://manuals/%2e%2e/secret", "shop://manuals/",
    "shop://manuals/.hidden", "shop://manuals/a", "shop://manuals//etc/passwd",
])  # fmt: skip
async def test_what_is_no_file_is_not_found(uri: str, manuals: Path) -> None:
    (manuals.parent / "secret").write_text("secret")
    (manuals / ".hidden").write_text("hidden")
    with hall_of(manuals) as hall, pytest.raises(McpError) as caught:
        await ask(hall, "resources/read", uri=uri)
    assert caught.value.code == -32602
    assert "unknown resource" in str(caught.value)


async def test_a_file_above_the_limit_is_an_error_and_never_cut(
    manuals: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (manuals / "large.txt").write_text("x" * 1_025)
    (manuals / "fits.txt").write_text("x" * 1_024)
    with Toolhall(Folder(MANUALS, manuals), config=Config(max_output_bytes=1_024)) as hall:
        (read,) = (await ask(hall, "resources/read", uri="shop://manuals/fits.txt"))["contents"]
        assert len(read["text"]) == 1_024
        with pytest.raises(McpError) as caught:
            await ask(hall, "resources/read", uri="shop://manuals/large.txt")
        assert caught.value.code == -32603
        assert "the file has more than 1024 bytes; raise max_output_bytes to serve it" in caplog.text


async def test_unlisted_files_are_read_all_the_same(manuals: Path) -> None:
    with hall_of(manuals, listed=False) as hall:
        assert [each["uri"] for each in await listed(hall, "resources/list", "resources")] == ["shop://policy"]
        assert (await ask(hall, "resources/read", uri="shop://manuals/logo.png"))["contents"]


async def test_text_of_files_is_sanitized(manuals: Path) -> None:
    (manuals / "hidden.md").write_text("a\u200bb")
    with hall_of(manuals) as hall:
        read = await ask(hall, "resources/read", uri="shop://manuals/hidden.md")
        assert read["contents"][0]["text"] == "ab"
        assert read["_meta"]["dev.toolhall/removed"]


async def test_exploded_paths_are_read(manuals: Path) -> None:
    with hall_of(manuals, "shop://m{/path*}") as hall:
        uris = [each["uri"] for each in await listed(hall, "resources/list", "resources")]
        assert uris[0] == "shop://m/a/setup%20guide.md"
        assert (await ask(hall, "resources/read", uri=uris[0]))["contents"][0]["text"] == "# Setup\n"


def test_a_folder_is_a_target_by_itself_and_in_a_module(manuals: Path) -> None:
    with Toolhall(Folder(MANUALS, manuals), Folder("m://{+path}", manuals, name="more")) as hall:
        assert [entry.id for entry in hall.registry.snapshot.resources.entries] == [
            "manuals.manuals@0.1.0", "more.more@0.1.0",
        ]  # fmt: skip
    module = ModuleType("shop")
    vars(module)["files"] = Folder(MANUALS, manuals, name="files")
    sys.modules.pop("shop", None)
    with Toolhall(module) as hall:
        assert [entry.id for entry in hall.registry.snapshot.resources.entries] == ["files.files@0.1.0"]


def test_says_that_the_directory_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadDeclaration, match=r"there is no directory .*gone.*; make it, or give another to Folder"):
        hall_of(tmp_path / "gone")


async def test_files_of_a_directory_that_went_are_not_listed(manuals: Path, caplog: pytest.LogCaptureFixture) -> None:
    with hall_of(manuals) as hall:
        await asyncio.to_thread(manuals.rename, manuals.with_name("elsewhere"))
        assert [each["uri"] for each in await listed(hall, "resources/list", "resources")] == ["shop://policy"]
        assert "there is no directory" in caplog.text
        await asyncio.to_thread(manuals.with_name("elsewhere").rename, manuals)
        assert len(await listed(hall, "resources/list", "resources")) == 3
