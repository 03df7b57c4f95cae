"""Folders, skills and pages on the wire, in each revision and over each transport."""

import base64
import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import StdioServers
from tests.conformance.serving import HERE, served, served_on_stdio
from tests.harness.http_client import Message
from tests.harness.mcp_client import (
    McpClient,
    http_mcp_client,
    shared_pipes,
    stateless_mcp_client,
    stdio_mcp_client,
)
from tests.harness.mcp_messages import LEGACY, MODERN, REVISIONS, SUBSCRIPTION_KEY
from tests.harness.server_process import ServerProcess

PROBE = "probe_files.py"
SKILL = "skill://acme/refund-letters"
SKILL_METHODS = ("skills/list", "skills/get", "resources/directory/read")
UI = {"csp": {"connectDomains": ["https://api.example.com"]}, "prefersBorder": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the servers of this file."""
    folder = tmp_path_factory.mktemp("manuals")
    (folder / "setup").mkdir()
    (folder / "setup/guide.md").write_text("# Setup\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\x00")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBE_FOLDER", str(folder))
        yield folder


@pytest.fixture(scope="module")
def shop(folder: Path) -> Iterator[ServerProcess]:
    """A server of probe_files.py, for all tests of this file."""
    assert folder.is_dir()
    with served(PROBE) as server:
        yield server


@pytest.fixture(scope="module")
def shop_on_stdio(folder: Path) -> Iterator[StdioServers]:
    """Servers of probe_files.py on standard input and output."""
    assert folder.is_dir()
    with served_on_stdio(PROBE) as legacy, served_on_stdio(PROBE) as modern:
        yield StdioServers(legacy, modern)


@pytest.fixture(
    params=[(transport, revision) for transport in ("http", "stdio") for revision in REVISIONS], ids="-".join
)
async def talk(
    request: pytest.FixtureRequest, shop: ServerProcess, shop_on_stdio: StdioServers
) -> AsyncIterator[McpClient]:
    """A conversation with the shop, in each revision and over each transport."""
    transport, revision = request.param
    if transport == "http":
        async with http_mcp_client(shop.origin, revision) as talk:
            yield talk
    else:
        async with shared_pipes(shop_on_stdio.for_revision(revision)) as line:
            yield await stdio_mcp_client(line, revision)


async def pages(talk: McpClient, method: str, member: str) -> list[Message]:
    """Every item of a list, over all pages."""
    found: list[Message] = []
    params: Message = {}
    while True:
        page = (await talk.ask(method, params)).result
        found.extend(page[member])
        if "nextCursor" not in page:
            return found
        params = {"cursor": page["nextCursor"]}


async def code(talk: McpClient, method: str, **params: Any) -> int:
    """The code of the error of a refused request."""
    found: int = (await talk.ask(method, params)).message["error"]["code"]
    return found


def content_of(result: Message) -> bytes:
    """The bytes that were read."""
    (content,) = result["contents"]
    return content["text"].encode() if "text" in content else base64.b64decode(content["blob"])


# --- folders ----------------------------------------------------------------------------------------------------------


async def test_files_of_a_folder_are_listed_as_they_are_now_and_read(talk: McpClient, folder: Path) -> None:
    files = {each["uri"]: each for each in await pages(talk, "resources/list", "resources")}
    guide = files["shop://manuals/setup/guide.md"]
    assert (guide["name"], guide["mimeType"], guide["size"]) == ("setup/guide.md", "text/markdown", 8)
    assert "shop://manuals/late.txt" not in files
    templates = await pages(talk, "resources/templates/list", "resourceTemplates")
    assert [each["uriTemplate"] for each in templates] == ["shop://manuals/{+path}"]
    late = folder / "late.txt"
    late.write_text("late")
    try:
        files = {each["uri"]: each for each in await pages(talk, "resources/list", "resources")}
        assert files["shop://manuals/late.txt"]["size"] == 4
    finally:
        late.unlink()
    for name in ("setup/guide.md", "logo.png"):
        read = (await talk.ask("resources/read", {"uri": f"shop://manuals/{name}"})).result
        assert content_of(read) == (folder / name).read_bytes()
    missing = -32602 if talk.modern else -32002
    assert await code(talk, "resources/read", uri="shop://manuals/../secret") == missing


async def test_listener_hears_of_a_file_that_changes(shop: ServerProcess, folder: Path) -> None:
    file = folder / "watched.txt"
    file.write_text("one")
    uri = "shop://manuals/watched.txt"
    async with http_mcp_client(shop.origin, MODERN) as talk:
        await talk.ask("resources/list")
        wanted = {"resourceSubscriptions": [uri], "resourcesListChanged": True}
        asked = talk.request("subscriptions/listen", {"notifications": wanted}, id="listener")
        async with talk.open(asked) as stream:
            assert (await stream.message())["params"]["notifications"] == wanted
            file.write_text("other")
            told = [await stream.message() for _ in range(2)]
    for message in told:
        talk.check(message, asked)
        assert message["params"].pop("_meta") == {SUBSCRIPTION_KEY: "listener"}
    assert [each["method"] for each in told] == [
        "notifications/resources/list_changed", "notifications/resources/updated",
    ]  # fmt: skip
    assert told[1]["params"] == {"uri": uri}
    file.unlink()


@pytest.mark.parametrize("revision", LEGACY)
async def test_session_hears_of_a_file_that_changes(shop: ServerProcess, folder: Path, revision: str) -> None:
    file = folder / f"{revision}.txt"
    file.write_text("one")
    async with http_mcp_client(shop.origin, revision) as talk:
        await talk.ask("resources/list")
        assert (await talk.ask("resources/subscribe", {"uri": f"shop://manuals/{file.name}"})).result == {}
        async with talk.http.open(None, talk.headers, "GET") as stream:
            assert (await stream.message())["method"] == "notifications/resources/list_changed", "of the new file"
            file.write_text("other")
            told = [(await stream.message())["method"] for _ in range(2)]
    assert sorted(told) == ["notifications/resources/list_changed", "notifications/resources/updated"]
    file.unlink()


# --- skills -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SK-1")
async def test_skills_are_declared_in_the_newest_revision_only(shop: ServerProcess) -> None:
    async with stateless_mcp_client(shop.origin) as http:
        found = (await http.modern("server/discover")).result["capabilities"]
    assert found["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
    assert "resources" in found
    for revision in LEGACY:
        async with http_mcp_client(shop.origin, revision) as talk:
            assert "extensions" not in (await talk.start())["capabilities"]


@pytest.mark.requirement("SK-1")
@pytest.mark.parametrize("method", SKILL_METHODS)
async def test_methods_of_skills_are_unknown_where_they_are_not_declared(
    talk: McpClient, probe: ServerProcess, method: str
) -> None:
    if not talk.modern:
        assert await code(talk, method, uri=f"{SKILL}/SKILL.md") == -32601
    async with stateless_mcp_client(probe.origin) as http:
        reply = await http.modern(method, {"uri": f"{SKILL}/SKILL.md"})
        assert (reply.status, reply.answer["error"]["code"]) == (404, -32601)
        assert "extensions" not in (await http.modern("server/discover")).result["capabilities"]


@pytest.mark.requirement("SK-2", "SK-3", "SK-4", "SK-6")
async def test_each_skill_is_an_entry_with_its_files(talk: McpClient) -> None:
    listed = {each["uri"]: each for each in await pages(talk, "resources/list", "resources")}
    assert listed[f"{SKILL}/SKILL.md"]["mimeType"] == "text/markdown"
    if not talk.modern:
        return
    skills = await pages(talk, "skills/list", "skills")
    assert [each["uri"] for each in skills] == [f"{SKILL}/SKILL.md", "skill://acme/shop-hours/SKILL.md"]
    for skill in skills:
        front = skill["frontmatter"]
        in_list = listed[skill["uri"]]
        assert (in_list["name"], in_list["description"]) == (front["name"], front["description"])
        assert all("." in key.partition("/")[0] for key in in_list["_meta"])
        assert skill["uri"] in {each["uri"] for each in skill["resources"]}
        got = (await talk.ask("skills/get", {"uri": skill["uri"]})).result
        assert got["skill"] == skill
        assert "nextCursor" not in got
    assert skills[0]["frontmatter"]["metadata"] == {"author": "the shop", "reviewed": "2026-07-28", "pages": 1}


@pytest.mark.requirement("SK-3", "SK-7")
async def test_digests_are_those_of_the_files(talk: McpClient) -> None:
    skills = (HERE / "skills").iterdir()
    paths = {
        f"skill://acme/{path.relative_to(HERE / 'skills').as_posix()}": path
        for each in skills
        for path in each.rglob("*")
    }
    digests: dict[str, Message] = {}
    if talk.modern:
        for skill in await pages(talk, "skills/list", "skills"):
            digests |= {each["uri"]: each for each in skill["resources"]}
        assert digests.keys() == {uri for uri, path in paths.items() if path.is_file()}
    for uri in (uri for uri, path in paths.items() if path.is_file()):
        data = content_of((await talk.ask("resources/read", {"uri": uri})).result)
        assert data == paths[uri].read_bytes()
        if talk.modern:
            stated = digests[uri]
            assert (stated["digest"], stated["size"]) == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


@pytest.mark.requirement("SK-4")
async def test_unknown_skills_are_invalid_params(shop: ServerProcess) -> None:
    async with http_mcp_client(shop.origin, MODERN) as talk:
        for uri in ("skill://acme/nothing/SKILL.md", SKILL, f"{SKILL}/templates/letter.md", "shop://manuals/logo.png"):
            assert await code(talk, "skills/get", uri=uri) == -32602
        assert await code(talk, "skills/get") == -32602
        assert await code(talk, "skills/list", cursor="nonsense") == -32602


@pytest.mark.requirement("SK-5")
async def test_directories_of_skills_are_read(shop: ServerProcess) -> None:
    async with http_mcp_client(shop.origin, MODERN) as talk:

        async def children(uri: str) -> dict[str, Message]:
            found: list[Message] = []
            params: Message = {"uri": uri}
            while True:
                page = (await talk.ask("resources/directory/read", params)).result
                found += page["resources"]
                if "nextCursor" not in page:
                    return {each["uri"]: each for each in found}
                params = {"uri": uri, "cursor": page["nextCursor"]}

        assert {uri: each.get("mimeType") for uri, each in (await children(SKILL)).items()} == {
            f"{SKILL}/SKILL.md": "text/markdown", f"{SKILL}/templates": "inode/directory",
        }  # fmt: skip
        (letter,) = (await children(f"{SKILL}/templates")).values()
        assert (letter["uri"], letter["name"], letter["size"]) == (f"{SKILL}/templates/letter.md", "letter.md", 57)
        assert list(await children("skill://acme")) == [SKILL, "skill://acme/shop-hours"]
        for uri in (
            f"{SKILL}/SKILL.md",
            f"{SKILL}/",
            f"{SKILL}/nothing",
            "skill://acme/refund",
            "skill:/",
            "shop://manuals",
            "",
        ):
            assert await code(talk, "resources/directory/read", uri=uri) == -32602


# --- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("AP-1", "AP-3")
async def test_pages_are_read_byte_for_byte_with_their_policy(talk: McpClient) -> None:
    listed = {each["uri"]: each for each in await pages(talk, "resources/list", "resources")}
    page = listed["ui://shop/orders"]
    assert (page["mimeType"], page["_meta"]["ui"]) == ("text/html;profile=mcp-app", UI)
    (read,) = (await talk.ask("resources/read", {"uri": "ui://shop/orders"})).result["contents"]
    assert read == {
        "uri": "ui://shop/orders", "mimeType": "text/html;profile=mcp-app", "_meta": {"ui": UI},
        "text": "<!doctype html>\n<title>\u200bOrders</title>\r\n",
    }  # fmt: skip


@pytest.mark.requirement("AP-2", "AP-4", "AP-6")
async def test_tools_name_their_page_and_always_return_text(talk: McpClient) -> None:
    tools = {each["name"]: each for each in await talk.tools()}
    assert tools["Shop_orders"]["_meta"]["ui"] == {"resourceUri": "ui://shop/orders"}
    assert tools["Shop_more"]["_meta"]["ui"] == {"resourceUri": "ui://shop/orders", "visibility": ["app"]}
    for name in ("Shop_orders", "Shop_more"):
        assert (await talk.call(name)).result["content"][0]["type"] == "text"
