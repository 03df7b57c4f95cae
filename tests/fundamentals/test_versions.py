"""A version is a promise, and the hall keeps it."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from toolhall import BrokenPromise, Config, ToolhallError, Toolkit, tool
from toolhall.model.errors import NotActive, Retired
from toolhall.registration.records import RegistrationSource
from toolhall.testing import Client


async def called(client: Client, name: str, **arguments: str) -> Any:
    """The value that comes back."""
    encoded = (await client.call_named(name, arguments)).encoded
    return None if encoded is None else json.loads(encoded)


class Shop(Toolkit, version="1.0.0"):
    """Sells things."""

    @tool(effect="reads")
    def price(self, item: str) -> int:
        """What a thing costs."""
        return len(item)


class ShopWithCurrency(Toolkit, name="Shop", version="1.0.0"):
    """The shop with a new required parameter, under the same version."""

    @tool(effect="reads")
    def price(self, item: str, currency: str) -> int:
        """What a thing costs."""
        return len(item + currency)


class ShopWithCurrencyMinor(ShopWithCurrency, name="Shop", version="1.1.0"):
    """The new required parameter in a minor version, which is too little."""


class ShopWithCurrencyMajor(ShopWithCurrency, name="Shop", version="2.0.0"):
    """The new required parameter in a major version."""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A hall that remembers."""
    return Config(data=str(tmp_path))


async def test_changed_definition_under_the_same_version_is_refused(config: Config) -> None:
    async with Client(Shop, config=config):
        pass
    with pytest.raises(BrokenPromise) as broken:
        async with Client(ShopWithCurrency, config=config):
            pass
    assert "write version 2.0.0" in broken.value.message


async def test_version_must_rise_as_the_change_requires(config: Config) -> None:
    async with Client(Shop, config=config):
        pass
    with pytest.raises(BrokenPromise, match=r"from 1\.0\.0 to 1\.1\.0 is too little for a major change"):
        async with Client(ShopWithCurrencyMinor, config=config):
            pass
    async with Client(ShopWithCurrencyMajor, config=config) as client:
        assert await called(client, "Shop_price", item="tea", currency="EUR") == 6


async def test_several_versions_are_served_and_selected(config: Config) -> None:
    async with Client(Shop, ShopWithCurrencyMajor, config=config) as client:
        assert await called(client, "Shop.price@^1", item="tea") == 3
        assert await called(client, "Shop_price", item="tea", currency="EUR") == 6  # the newest
        assert [str(each.id) for each in await client.list_tools()] == ["Shop.price@2.0.0"]


GREETER: dict[str, Any] = {
    "id": "greeter",
    "name": "Greeter",
    "version": "1.0.0",
    "description": "Says hello.",
    "capabilities": [{"name": "greet", "description": "Greets somebody."}],
}


async def test_external_definition_is_quarantined(config: Config) -> None:
    async with Client(config=config) as client:
        registrar = client.hall.registration
        (kept,) = await registrar.register(GREETER, "machine", RegistrationSource("http", "ada", 0.0))
        assert (kept.state, await client.list_tools()) == ("quarantined", ())
        with pytest.raises(NotActive, match="is quarantined"):
            await called(client, "greeter_greet")
        await registrar.activate(kept.id, "ada", reviewed_digest=kept.document_digest)
        assert [each.name for each in await client.list_tools()] == ["greeter_greet"]
    async with Client(config=config) as client:  # after a restart
        assert [each.name for each in await client.list_tools()] == ["greeter_greet"]


async def test_deprecated_tool_without_sunset_can_still_be_called(config: Config) -> None:
    async with Client(Shop, ShopWithCurrencyMajor, config=config) as client:
        registrar = client.hall.registration
        await registrar.deprecate("Shop.price@1.0.0", "ada", None, "Shop.price@2.0.0")
        assert await called(client, "Shop.price@^1", item="tea") == 3


async def test_retired_tool_is_refused_with_its_successor(config: Config) -> None:
    async with Client(Shop, ShopWithCurrencyMajor, config=config) as client:
        await client.hall.registration.deprecate("Shop.price@1.0.0", "ada", date(2020, 1, 1), "Shop.price@2.0.0")
        with pytest.raises(Retired, match=r"was retired on 2020-01-01; call Shop\.price@2\.0\.0 instead"):
            await called(client, "Shop.price@^1", item="tea")


async def test_rollback_restores_the_previous_version(config: Config) -> None:
    async with Client(Shop, ShopWithCurrencyMajor, config=config) as client:
        await client.hall.registration.roll_back("Shop.price", "ada")
        assert await called(client, "Shop_price", item="tea") == 3
        with pytest.raises(ToolhallError, match="is inactive"):
            await called(client, "Shop.price@2.0.0", item="tea", currency="EUR")
        told = await client.hall.registration.history("Shop.price@2.0.0")
        assert [event.what for event in told] == ["rolled back", "registered"]
