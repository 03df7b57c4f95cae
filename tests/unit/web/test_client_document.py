"""The document by which authorization servers of upstreams know the hall, served to everybody."""

import json

import pytest

from tests.unit.web.browser_client import Browser
from toolhall import Config, Toolhall

BASE = "https://tools.example/hall"


@pytest.mark.parametrize("profile", ["local", "server"])
@pytest.mark.parametrize("name", ["client.json", "client/0123456789abcdef.json"])
async def test_client_document_names_its_own_address_and_a_redirect_below_it(name: str, profile: str) -> None:
    config = Config(public_url=BASE, allowed_hosts=("localhost",), profile=profile)  # type: ignore[arg-type]
    with Toolhall(config=config) as hall:
        reply = await Browser(hall, "203.0.113.9").get(f"/oauth/{name}")
    assert (reply.status, reply.header("content-type")) == (200, "application/json")
    document = json.loads(reply.text)
    assert document["client_id"] == f"{BASE}/oauth/{name}"
    assert document["redirect_uris"][0].startswith(f"{BASE}/oauth/callback")
    assert document["token_endpoint_auth_method"] == "none"
    assert "refresh_token" in document["grant_types"]


@pytest.mark.parametrize("name", ["client/x.json", "client/", "client.json/x"])
async def test_client_document_of_another_name_does_not_exist(name: str) -> None:
    with Toolhall(config=Config(public_url=BASE, allowed_hosts=("localhost",))) as hall:
        assert (await Browser(hall).get(f"/oauth/{name}")).status == 404


async def test_client_document_without_https_does_not_exist() -> None:
    with Toolhall(config=Config()) as hall:
        reply = await Browser(hall).get("/oauth/client.json")
    assert reply.status == 404
    assert "public_url with https" in reply.text
