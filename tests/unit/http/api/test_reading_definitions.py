"""Resources and prompts in `/api/tools` and `/api/check`: their URIs, what is completed, what would stop them."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.http.api.management_client import manage
from toolhall import Toolhall, prompt, resource, tool


@resource("shop://orders/{number}", mime_type="application/json", version="1.0.0")
def order(number: int) -> dict[str, int]:
    """An order."""
    return {"number": number}


@order.complete("number")
def numbers() -> list[str]:
    return ["17"]


@resource("shop://ledger", level=8, version="1.0.0")
def ledger() -> str:
    """What a person has to open."""
    return ""


@prompt(version="1.0.0")
def letter(customer: str) -> str:
    """A letter."""
    return customer


@tool(version="1.0.0", effect="reads")
def plain() -> str:
    """A tool."""
    return ""


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    with Toolhall(order, ledger, letter, plain) as hall:
        await hall.open()
        yield hall


async def id_of(hall: Toolhall, name: str) -> str:
    listed = (await manage(hall, "GET", "/api/tools")).body["tools"]
    (found,) = [each["id"] for each in listed if each["tool"] == name]
    return str(found)


async def test_summaries_name_uri_and_type_of_resources_only(hall: Toolhall) -> None:
    listed = {each["tool"]: each for each in (await manage(hall, "GET", "/api/tools")).body["tools"]}
    where = {name: (each["kind"], each["uri"], each["mimeType"]) for name, each in listed.items()}
    assert where == {
        "order": ("resource", "shop://orders/{number}", "application/json"),
        "ledger": ("resource", "shop://ledger", "text/plain"),
        "letter": ("prompt", None, None),
        "plain": ("tool", None, None),
    }


async def test_details_name_what_is_completed(hall: Toolhall) -> None:
    for name, completed in (("order", ["number"]), ("letter", []), ("plain", [])):
        detail = (await manage(hall, "GET", f"/api/tools/{await id_of(hall, name)}")).body
        assert detail["completes"] == completed, name


@pytest.mark.parametrize(
    ("name", "arguments", "verdict", "stopped"),
    [
        ("order", {"number": 17}, "runs", None),
        ("order", {"number": "x"}, "refused", "validate"),
        ("letter", {"customer": "Ada"}, "runs", None),
        ("letter", {}, "refused", "validate"),
        ("plain", {}, "runs", None),
    ],
)
async def test_check_judges_every_kind(
    hall: Toolhall, name: str, arguments: dict[str, object], verdict: str, stopped: str | None
) -> None:
    asked = {"caller": "local", "tool": await id_of(hall, name), "arguments": arguments}
    answer = (await manage(hall, "POST", "/api/check", asked)).body
    stops = [each["stage"] for each in answer["stages"] if each["state"] == "stop"]
    assert (answer["verdict"], stops) == (verdict, [stopped] if stopped else [])


async def test_check_says_that_a_guarded_resource_needs_a_person(hall: Toolhall) -> None:
    asked = {"caller": "local", "tool": await id_of(hall, "ledger"), "arguments": {}}
    stages = {each["stage"]: each for each in (await manage(hall, "POST", "/api/check", asked)).body["stages"]}
    assert stages["find"]["state"] == "pass"
    assert stages["verify"]["state"] in {"ask", "stop"}
