# ruff: noqa: N802 - tests carry the names of their rows
"""A condition looks at what was sent and at what the tool gets for it, and neither may be forbidden."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from tests.harness.asgi_client import post_json
from toolhall import Config, Toolhall, Toolkit, tool
from toolhall.registration.access import NewCondition, NewGrant, NewKey

SERVED: dict[str, Any] = {"profile": "server", "public_url": "http://localhost:8000"}
USED = "0d9f1a52-6ad0-4a3c-9f6e-8f2d2a6f3a11"
CEDAR = f"""
permit(principal, action, resource);
forbid(principal, action, resource)
when {{
  context.arguments has order && context.arguments.order has options && context.arguments.order.options.mode == "delete"
}};
forbid(principal, action, resource)
when {{
  context.arguments has order && context.arguments.order has tags && context.arguments.order.tags == ["delete"]
}};
forbid(principal, action, resource) when {{ context.arguments has id && context.arguments.id == "{USED}" }};
"""


@dataclass
class Options:
    """What to do, unless told otherwise."""

    mode: str = "delete"


@dataclass
class Order:
    """Its options are made where there are none."""

    options: Options = field(default_factory=Options)


class Compact(msgspec.Struct, omit_defaults=True):
    """Is written without what is usual."""

    mode: str = "delete"


class CompactOrder(msgspec.Struct):
    """The same as a struct."""

    options: Compact = msgspec.field(default_factory=Compact)


@dataclass
class Tagged:
    """A list that is made."""

    tags: list[str] = field(default_factory=lambda: ["delete"])


class Hidden(pydantic.BaseModel):
    """A member that the model does not write, under a name that is not its own."""

    how: Options = pydantic.Field(default_factory=Options, exclude=True, validation_alias="options")


class Shop(Toolkit, name="Shop", version="1.0.0"):
    """Tools whose arguments become more than what was sent."""

    @tool(level=5, effect="writes")
    async def plain(self, order: Order) -> str:
        """Order."""
        return order.options.mode

    @tool(level=5, effect="writes")
    async def compact(self, order: CompactOrder) -> str:
        """Order."""
        return order.options.mode

    @tool(level=5, effect="writes")
    async def hidden(self, order: Hidden) -> str:
        """Order."""
        return order.how.mode

    @tool(level=5, effect="writes")
    async def tagged(self, order: Tagged) -> str:
        """Order."""
        return order.tags[0]

    @tool(level=5, effect="writes")
    async def take(self, id: uuid.UUID) -> str:  # noqa: A002 - as callers know it
        """Take."""
        return str(id)


async def asked(hall: Toolhall, name: str, body: str) -> int:
    """The status of one call by a new key."""
    _, key = await hall.access.keys.create(NewKey(name="ci"), "test")
    return (await post_json(hall.http, f"/tools/Shop/{name}", body.encode(), {"authorization": f"Bearer {key}"})).status


@pytest.fixture(params=["grants", "cedar"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Toolhall]:
    """A hall where everything may be called, but not to delete, and not with one id."""
    path = tmp_path / "rules.cedar"
    path.write_text(CEDAR, "utf-8")
    cedar = str(path) if request.param == "cedar" else None
    with Toolhall(Shop(), config=Config(**SERVED, cedar=cedar)) as hall:
        await hall.open()
        if cedar is None:
            await hall.access.grants.add(NewGrant("*", "Shop.*"), "test")
            for place, value in (("/order/options/mode", "delete"), ("/order/tags/0", "delete"), ("/id", USED)):
                forbid = NewGrant("*", "Shop.*", "forbid", (NewCondition(place, value),))
                await hall.access.grants.add(forbid, "test")
        yield hall


@pytest.mark.threat("B10")
@pytest.mark.parametrize("name", ["plain", "compact", "hidden"])
async def test_B10_condition_applies_to_members_filled_in_by_the_tools_own_types(shop: Toolhall, name: str) -> None:
    """A member that a tool's own code fills in, and no schema tells of, is forbidden like one that was sent."""
    bodies = ('{"order":{"options":{"mode":"keep"}}}', '{"order":{"options":{}}}', '{"order":{}}')
    assert [await asked(shop, name, body) for body in bodies] == [200, 403, 403]


@pytest.mark.threat("B10")
async def test_B10_condition_applies_to_a_list_filled_in_by_the_tools_own_types(shop: Toolhall) -> None:
    """Also inside a list that was not sent."""
    bodies = ('{"order":{"tags":["keep"]}}', '{"order":{"tags":["delete"]}}', '{"order":{}}')
    assert [await asked(shop, "tagged", body) for body in bodies] == [200, 403, 403]


@pytest.mark.threat("B10")
@pytest.mark.parametrize("spelled", [USED, USED.upper(), USED.replace("-", "")])
async def test_B10_condition_on_a_uuid_matches_any_spelling_of_it(shop: Toolhall, spelled: str) -> None:
    """A forbidden UUID is forbidden in capitals and without hyphens; another one is not."""
    assert await asked(shop, "take", f'{{"id":"{spelled}"}}') == 403
    assert await asked(shop, "take", f'{{"id":"{uuid.uuid4()}"}}') == 200


@pytest.mark.threat("B10")
async def test_B10_permit_condition_must_match_the_sent_and_the_converted_arguments() -> None:
    """A permit holds for what was sent and for what the tool gets; what fits only one of them is denied."""
    with Toolhall(Shop(), config=Config(**SERVED)) as hall:
        await hall.open()
        for condition in (NewCondition("/id", USED), NewCondition("/order/options/mode", "delete")):
            await hall.access.grants.add(NewGrant("*", "Shop.*", "permit", (condition,)), "test")
        for spelled, status in ((USED, 200), (USED.upper(), 403), (str(uuid.uuid4()), 403)):
            assert await asked(hall, "take", f'{{"id":"{spelled}"}}') == status
        bodies = ('{"order":{"options":{"mode":"delete"}}}', '{"order":{"options":{}}}', '{"order":{}}')
        assert [await asked(hall, "plain", body) for body in bodies] == [200, 200, 403]
