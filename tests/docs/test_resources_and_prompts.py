"""The pages about resources and prompts, and for those who come from FastMCP: their code and their commands run."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from docs_src import from_fastmcp, shop
from docs_src.test_from_fastmcp import test_an_order_is_paid
from docs_src.test_shop import test_a_letter_is_drafted, test_a_paid_order_is_read
from tests.harness.cli import CliRunner
from tests.harness.patience import patience
from toolhall import Config, ToolFailed, ToolhallError
from toolhall.model.uri_template import UriTemplate
from toolhall.testing import Client

__all__ = ["test_a_letter_is_drafted", "test_a_paid_order_is_read", "test_an_order_is_paid"]  # shown on the pages

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs/how-to"
FASTMCP_PYTHON = ROOT / ".venv-clients/bin/python"
COMMANDS = [
    command
    for page in ("resources", "prompts")
    for command in re.findall(r"^toolhall (.*)$", (HOW_TO / f"{page}.md").read_text(), re.MULTILINE)
]
# What both servers answer, as FastMCP's client sees the one, run by FastMCP's own Python.
DRIVER = """
import asyncio, json, logging, sys
sys.path.insert(0, sys.argv[1])
import mcp_types, shop, test_shop
from fastmcp import Client
logging.disable()

async def main():
    await test_shop.test_an_order_is_paid()
    shop.paid.clear()
    async with Client(shop.mcp) as client:
        ref = mcp_types.ResourceTemplateReference(type="ref/resource", uri="shop://orders/{number}")
        tone = mcp_types.PromptReference(type="ref/prompt", name="refund")
        got = await client.get_prompt("refund", {"number": "17", "tone": "firm"})
        try:
            await client.call_tool("pay", {"number": 99})
        except Exception as error:
            refused = str(error)
        print(json.dumps({
            "tools": [each.name for each in await client.list_tools()],
            "resources": [str(each.uri) for each in await client.list_resources()],
            "templates": [each.uri_template for each in await client.list_resource_templates()],
            "prompts": [[each.name, [one.name for one in each.arguments]] for each in await client.list_prompts()],
            "policy": (await client.read_resource("shop://policy"))[0].text,
            "order": json.loads((await client.read_resource("shop://orders/18"))[0].text),
            "prompt": [[each.role, each.content.text] for each in got.messages],
            "numbers": (await client.complete(ref, {"name": "number", "value": "17"})).values,
            "tones": (await client.complete(tone, {"name": "tone", "value": "f"})).values,
            "paid": (await client.call_tool("pay", {"number": 18})).data,
            "refused": refused,
        }))

asyncio.run(main())
"""


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    return CliRunner(tmp_path)


def test_resources_and_prompts_pages_commands_all_work(cli: CliRunner) -> None:
    (cli.folder / "shop.py").write_text((ROOT / "docs_src/shop.py").read_text())
    assert {command.split()[0] for command in COMMANDS} == {"serve", "list", "read", "prompt"}
    with cli.serve("shop.py") as server:
        for command in COMMANDS:
            words = [server.url if word.startswith("http://") else word for word in shlex.split(command)]
            if words[0] == "serve":
                continue
            done = cli.run(*words)
            assert done.code == 0, (command, done)
            assert done.out
    assert "shop://orders{?status,limit}" in cli.run("list", "shop.py", "--kind", "resource").out


async def test_shop_example_completes_and_finds_nothing_where_nothing_is() -> None:
    kit = shop.Shop()
    async with Client(kit) as client:
        assert await client.complete(kit.order, "number", "1") == ["17", "18"]
        assert await client.complete(kit.refund, "number", "", tone="firm") == ["17"]
        assert await client.complete("shop://orders{?status,limit}", "status", "p") == ["paid"]
        with pytest.raises(ToolhallError, match="unknown resource"):
            await client.read(kit.order, number=99)


async def test_resources_page_setting_offers_the_tools_that_it_names() -> None:
    page = (HOW_TO / "resources.md").read_text()
    (stated,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    async with Client(shop.Shop, config=msgspec.toml.decode(stated, type=Config)) as client:
        listed = await client.call_named("Resources_list", {})
        read = await client.call_named("Resources_read", {"uri": "shop://policy"})
        order = await client.call_named("Shop_order", {"number": 17})
    assert "shop://policy" in str(listed)
    assert "Within 14 days." in str(read)
    assert json.loads(order.encoded or b"")["what"] == "tea"
    assert all(f"`{name}`" in page for name in ("Resources_list", "Resources_read", "Shop_order"))


def test_template_forms_on_the_resources_page_are_the_ones_served() -> None:
    table = (HOW_TO / "resources.md").read_text().partition("| in the template | takes |")[2].partition("\n\n")[0]
    forms = re.findall(r"`(\{[^`]+\})`", table)
    assert len(forms) >= 7
    for form in forms:
        assert UriTemplate(f"shop://x{'?a=1' if form.startswith('{&') else '/'}{form}").is_template


async def answers_of_toolhall() -> dict[str, Any]:
    kit = from_fastmcp.Shop()
    async with Client(kit) as client:
        with pytest.raises(ToolFailed) as refused:
            await client.call(kit.pay, number=99)
        prompts = [[each.name.removeprefix("Shop_"), list(each.input["properties"])] for each in await client.prompts()]
        said = await client.prompt(kit.refund, number=17, tone="firm")
        return {
            "tools": [each.name.removeprefix("Shop_") for each in await client.list_tools()],
            "resources": [each.resource.uri for each in await client.resources() if each.resource],
            "templates": [each.resource.uri for each in await client.templates() if each.resource],
            "prompts": prompts,
            "policy": await client.read(kit.policy),
            "order": await client.read(kit.order, number=18),
            "prompt": [[each.role, getattr(each.content, "text", None)] for each in said],
            "numbers": await client.complete(kit.order, "number", "17"),
            "tones": await client.complete(kit.refund, "tone", "f"),
            "paid": await client.call(kit.pay, number=18),
            "refused": str(refused.value),
        }


def answers_of_fastmcp() -> Any:
    done = subprocess.run(
        [FASTMCP_PYTHON, "-W", "ignore", "-c", DRIVER, ROOT / "docs_src/fastmcp"],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


async def test_both_servers_of_the_fastmcp_page_give_the_same_answers() -> None:
    if not FASTMCP_PYTHON.exists():
        pytest.skip("FastMCP is installed by 'make setup'")
    assert answers_of_fastmcp() == await answers_of_toolhall()


def test_fastmcp_page_names_the_version_that_it_was_run_with() -> None:
    page = (HOW_TO / "coming-from-fastmcp.md").read_text()
    locked = (ROOT / "requirements/clients.txt").read_text()
    for version in re.findall(r"FastMCP (\d+\.\d+\.\d+)", page):
        assert f"fastmcp=={version}" in locked
