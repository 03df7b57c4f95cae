"""A tool that will go says so in every dialect that can: in lists, in the description, and in REST's answers."""

from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest

from tests.harness.asgi_client import send_json
from tests.unit.http.api.management_client import manage
from toolhall import Toolhall, Toolkit, tool
from toolhall.dialects.catalogs import DIALECTS


class Old(Toolkit, name="Shop", version="1.0.0"):
    """Sells things."""

    @tool(effect="reads")
    def price(self) -> int:
        """What it costs."""
        return 3


class New(Old, name="Shop", version="2.0.0"):
    """Sells more things."""


SAID = {"sunset": "2099-01-31", "successor": "Shop.price@1.0.0"}


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    """The newest version will go, in favour of the one before."""
    with Toolhall(Old, New) as hall:
        await hall.registration.deprecate("Shop.price@2.0.0", "ada", date(2099, 1, 31), "Shop.price@1.0.0")
        yield hall


def without_since(said: dict[str, Any]) -> dict[str, Any]:
    assert isinstance(said.pop("since"), int)
    return said


async def test_deprecation_is_listed_where_dialect_can(hall: Toolhall) -> None:
    key = "dev.toolhall/deprecated"
    (mcp,) = (await send_json(hall, "/tools?dialect=mcp"))[1]["tools"]
    assert without_since(mcp["_meta"][key]) == SAID
    machine = (await send_json(hall, "/machine/tools"))[1]["tools"]
    (new,) = (each for each in machine if each["version"] == "2.0.0")
    assert without_since(new["capabilities"][0][key]) == SAID
    (hub,) = (await send_json(hall, "/tools?dialect=hub"))[1]["tools"]
    assert without_since(hub["tool"]["capabilities"]["methods"][0][key]) == SAID


async def test_openapi_marks_deprecated_version(hall: Toolhall) -> None:
    operation = (await send_json(hall, "/openapi.json"))[1]["paths"]["/tools/Shop/price"]["post"]
    assert (operation["deprecated"], operation["x-sunset"], operation["x-successor"]) == (True, *SAID.values())


@pytest.mark.parametrize(
    "dialect", [each for each in DIALECTS if not each.startswith(("mcp", "machine", "hub", "openapi"))]
)
async def test_deprecation_in_other_dialects_is_a_loss(hall: Toolhall, dialect: str) -> None:
    reply = (await send_json(hall, f"/tools?dialect={dialect}"))[1]
    assert any(loss["path"].startswith("/deprecation") for loss in reply["losses"]) or reply.get("refused")


async def test_rest_sends_deprecation_headers(hall: Toolhall) -> None:
    headers = (await manage(hall, "POST", "/tools/Shop/price")).headers
    assert headers[b"sunset"] == b"Sat, 31 Jan 2099 00:00:00 GMT"
    assert headers[b"link"] == b'</tools/Shop/price?version=1.0.0>; rel="successor-version"'
    assert headers[b"deprecation"].startswith(b"@")
    kept = (await manage(hall, "POST", "/tools/Shop/price?version=1.0.0")).headers
    assert not kept.keys() & {b"sunset", b"link", b"deprecation"}
