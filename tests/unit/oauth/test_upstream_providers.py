"""Accounts at upstreams: discovery of the authorization server, the hall's identity there, and the linked account."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.servers.account_broker import (
    ALICE,
    BOB,
    HALL,
    REDIRECT,
    SECRET,
    BrokerHarness,
    broker_harness,
    egress_client_for,
    provider_settings,
)
from tests.servers.http_server import HttpRequest, HttpResponse
from tests.servers.protected_upstream import (
    ISSUER_METADATA,
    RESOURCE_METADATA,
    ProtectedUpstream,
    protected_upstream,
)
from tests.servers.scripted_authority import json_response
from toolhall.model.requirements import AccountRequirement
from toolhall.model.upstream import UpstreamSettings
from toolhall.oauth.client_identity import client_document
from toolhall.oauth.providers import LinkFailed, ProviderSettings, UnknownProvider

NEED = AccountRequirement("upstream:notes")
TOOL = "notes.list@1.0.0"


@pytest.fixture
def upstream() -> Iterator[ProtectedUpstream]:
    with protected_upstream() as server:
        yield server


@asynccontextmanager
async def hall_with(
    upstream: ProtectedUpstream, providers: dict[str, ProviderSettings] | None = None, **options: Any
) -> AsyncGenerator[BrokerHarness]:
    """A broker for which the upstream is `notes`."""
    egress = egress_client_for(upstream.origin, upstream.authority.issuer)
    settings = {"notes": UpstreamSettings(url=upstream.url, auth="oauth")}
    async with broker_harness(providers or {}, egress=egress, upstreams=settings, **options) as hall:
        yield hall


async def link(hall: BrokerHarness, scopes: tuple[str, ...] = ()) -> None:
    """Alice links her account at the upstream."""
    assert (await hall.connect(ALICE, scopes, NEED.provider)).state == "completed"


async def refusal(hall: BrokerHarness) -> str:
    """Why no account can be linked."""
    with pytest.raises(LinkFailed) as failed:
        await hall.begin(provider=NEED.provider, scopes=())
    return failed.value.message


async def test_upstream_account_linked_in_a_browser_gives_its_user_alone_a_token(upstream: ProtectedUpstream) -> None:
    upstream.challenge = 'Bearer scope="notes.read", resource_metadata="{origin}{path}"'
    upstream.metadata = {"scopes_supported": ["notes.admin"]}
    async with hall_with(upstream) as hall:
        missing, words = await hall.broker.link_requirement(ALICE, NEED, TOOL)
        assert missing.url is not None
        assert missing.url in words
        found = await hall.broker.find_link(missing.id or "")
        assert found is not None
        consent = await hall.broker.describe_consent(found.id, ALICE)
        assert consent.scopes == ("notes.read",)
        assert consent.provider_host == upstream.authority.issuer.removeprefix("http://")

        visit = await hall.agree(found)
        assert visit.sent["resource"] == upstream.url
        assert visit.sent["code_challenge_method"] == "S256"
        assert visit.sent["redirect_uri"] == REDIRECT
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)

        assert upstream.authority.last("/token").form["resource"] == upstream.url
        token = await hall.token(NEED)
        assert token is not None
        assert token.token.reveal() == upstream.authority.issued[0]
        assert hall.broker.cached_token("alice", NEED) == token
        assert await hall.token(NEED, user="bob") is None
        (account,) = await hall.broker.accounts()
        assert account.issuer == f"{upstream.authority.issuer} {upstream.url}"


async def test_upstream_account_refresh_sends_the_resource(upstream: ProtectedUpstream) -> None:
    async with hall_with(upstream) as hall:
        await link(hall)
        hall.clock.now += 3_590
        token = await hall.token(NEED)
        assert token is not None
        assert token.token.reveal() == upstream.authority.issued[1]
        assert upstream.authority.last("/token").form["resource"] == upstream.url


async def test_upstream_that_does_not_exist_has_no_accounts(upstream: ProtectedUpstream) -> None:
    async with hall_with(upstream) as hall:
        with pytest.raises(UnknownProvider):
            await hall.begin(provider="upstream:other")
        assert await hall.token(AccountRequirement("upstream:other")) is None


@pytest.mark.parametrize("place", ["challenge", "path", "root"])
async def test_discovery_finds_the_metadata_by_challenge_path_or_root(upstream: ProtectedUpstream, place: str) -> None:
    upstream.metadata_path = {
        "challenge": "/somewhere",
        "path": f"{RESOURCE_METADATA}/mcp",
        "root": RESOURCE_METADATA,
    }[place]
    if place != "challenge":
        upstream.challenge = "Bearer"
    async with hall_with(upstream) as hall:
        await link(hall)
        assert await hall.token(NEED) is not None


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", ISSUER_METADATA])
async def test_discovery_of_an_issuer_with_a_path_inserts_it(upstream: ProtectedUpstream, path: str) -> None:
    authority = upstream.authority
    issuer = f"{authority.issuer}/tenant"
    document = {**authority.default_metadata(), "issuer": issuer}
    authority.callback = {"iss": issuer}
    authority.paths[f"{path}/tenant"] = lambda _: json_response(document)
    upstream.metadata = {"authorization_servers": [issuer]}
    async with hall_with(upstream) as hall:
        await link(hall)
        assert await hall.token(NEED) is not None
        assert authority.count(ISSUER_METADATA) == 0


async def test_discovery_takes_the_first_authorization_server_that_can_be_used(upstream: ProtectedUpstream) -> None:
    upstream.metadata = {"authorization_servers": [f"{upstream.origin}/gone", upstream.authority.issuer]}
    async with hall_with(upstream) as hall:
        await link(hall)
        (account,) = await hall.broker.accounts()
        assert account.issuer.startswith(f"{upstream.authority.issuer} ")


async def test_discovery_without_resource_metadata_uses_metadata_at_the_origin(upstream: ProtectedUpstream) -> None:
    upstream.metadata, upstream.challenge = None, None
    authority = upstream.authority
    authority.callback = {"iss": upstream.origin}
    for path in ("/authorize", "/token", "/register"):
        upstream.paths[f"/own{path}"] = lambda asked: authority.answer(asked._replace(path=asked.path[4:]))
    places = ("authorization_endpoint", "authorize"), ("token_endpoint", "token"), ("registration_endpoint", "register")
    endpoints = {name: f"{upstream.origin}/own/{path}" for name, path in places}
    document = {**authority.default_metadata(), "issuer": upstream.origin, **endpoints}
    del document["revocation_endpoint"]
    upstream.paths[ISSUER_METADATA] = lambda _: json_response(document)
    async with hall_with(upstream) as hall:
        await link(hall)
        assert authority.last("/token").form["resource"] == upstream.url


async def test_discovery_without_any_metadata_uses_the_fixed_paths_at_the_origin(upstream: ProtectedUpstream) -> None:
    upstream.metadata, upstream.challenge = None, None
    upstream.authority.callback = {"iss": None}
    for path in ("/authorize", "/token", "/register"):
        upstream.paths[path] = upstream.authority.answer
    async with hall_with(upstream) as hall:
        visit = await hall.agree(await hall.begin(provider=NEED.provider, scopes=()))
        assert visit.url.startswith(f"{upstream.origin}/authorize?")
        assert visit.path.startswith("/oauth/callback/")  # a path of its own, because no iss comes back
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        assert await hall.token(NEED) is not None


async def test_discovery_of_an_upstream_that_takes_a_key_says_what_to_write(upstream: ProtectedUpstream) -> None:
    upstream.metadata, upstream.challenge = None, None
    async with hall_with(upstream) as hall:
        assert 'headers = {Authorization = "Bearer ${secret:NAME}"}' in await refusal(hall)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"issuer": "https://attacker.example.com"}, "names another issuer"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE with S256"),
        ({"code_challenge_methods_supported": None}, "PKCE with S256"),
        ({"token_endpoint": "http://127.0.0.1:9/token"}, "token_endpoint"),
        ({"token_endpoint": None}, "names no authorization and token endpoint"),
    ],
)
async def test_discovery_of_an_authorization_server_that_cannot_be_used_says_why(
    upstream: ProtectedUpstream, metadata: dict[str, Any], words: str
) -> None:
    upstream.authority.metadata = metadata
    async with hall_with(upstream) as hall:
        assert words in await refusal(hall)
        assert upstream.authority.count("/register") == 0


async def test_discovery_accepts_an_issuer_that_differs_by_the_slash_of_an_empty_path(
    upstream: ProtectedUpstream,
) -> None:
    issuer = f"{upstream.authority.issuer}/"
    upstream.authority.metadata, upstream.authority.callback = {"issuer": issuer}, {"iss": issuer}
    async with hall_with(upstream) as hall:
        await link(hall)


async def test_discovery_failure_is_not_repeated_by_every_call(upstream: ProtectedUpstream) -> None:
    upstream.authority.metadata = {"issuer": "https://attacker.example.com"}
    async with hall_with(upstream) as hall:
        await asyncio.gather(*(refusal(hall) for _ in range(5)))
        await refusal(hall)
        assert upstream.authority.count(ISSUER_METADATA) == 1
        upstream.authority.metadata = {}
        hall.clock.now += 10
        await link(hall)


async def test_discovery_that_fails_later_keeps_what_was_known(upstream: ProtectedUpstream) -> None:
    async with hall_with(upstream) as hall:
        await link(hall)
        upstream.authority.paths[ISSUER_METADATA] = lambda _: HttpResponse(503)
        hall.clock.now += 4_000
        assert await hall.token(NEED) is not None
        assert upstream.authority.count("/token", "refresh_token") == 1


async def test_discovery_takes_a_web_page_for_no_metadata(upstream: ProtectedUpstream) -> None:
    page = HttpResponse(200, b"<html>", (("Content-Type", "text/html"),))
    upstream.paths["/somewhere"] = lambda _: page
    upstream.challenge = 'Bearer resource_metadata="{origin}/somewhere"'
    async with hall_with(upstream) as hall:
        await link(hall)


async def test_account_of_a_changed_issuer_or_resource_must_be_linked_again(upstream: ProtectedUpstream) -> None:
    async with hall_with(upstream) as hall:
        await link(hall)
        hall.broker.reload()
        upstream.metadata = {"resource": upstream.origin}
        hall.clock.now += 3_601
        assert await hall.token(NEED) is None
        await link(hall)
        assert await hall.token(NEED) is not None


# --- who the hall is


async def test_registration_is_kept_and_used_by_every_link(upstream: ProtectedUpstream) -> None:
    async with hall_with(upstream) as hall:
        await asyncio.gather(*(hall.connect(each, (), NEED.provider) for each in (ALICE, BOB)))
        hall.clock.now += 4_000
        assert await hall.token(NEED) is not None
        assert upstream.authority.count("/register") == 1
        assert {each.user for each in await hall.broker.accounts()} == {"alice", "bob"}
        wanted = upstream.authority.last("/register").body.decode()
        assert f'"redirect_uris":["{REDIRECT}"]' in wanted
        assert "refresh_token" in wanted


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
async def test_registration_uses_the_methods_of_the_token_endpoint(upstream: ProtectedUpstream, method: str) -> None:
    authority = upstream.authority
    authority.metadata = {"token_endpoint_auth_methods_supported": [method]}
    authority.registration = {"client_secret": None} if method == "none" else {}
    async with hall_with(upstream) as hall:
        await link(hall)
        asked = authority.last("/token")
        assert asked.headers.get("authorization", "").startswith("Basic ") == (method == "client_secret_basic")
        assert ("client_secret" in asked.form) == (method == "client_secret_post")
        assert (asked.form.get("client_id") == authority.clients[0]) == (method != "client_secret_basic")


async def test_registration_that_is_refused_is_made_again_for_the_next_link(upstream: ProtectedUpstream) -> None:
    authority = upstream.authority
    authority.paths["/token"] = lambda _: json_response({"error": "invalid_client"}, 401)
    async with hall_with(upstream) as hall:
        visit = await hall.agree(await hall.begin(provider=NEED.provider, scopes=()))
        with pytest.raises(LinkFailed, match="invalid_client"):
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        del authority.paths["/token"]
        await link(hall)
        assert authority.count("/register") == 2
        assert authority.last("/authorize").query["client_id"] == authority.clients[1]


async def test_registration_whose_secret_has_expired_is_made_again(upstream: ProtectedUpstream) -> None:
    async with hall_with(upstream) as hall:
        upstream.authority.registration = {"client_secret_expires_at": int(hall.clock.now) + 100}
        await link(hall)
        hall.clock.now += 4_000
        await link(hall)
        assert upstream.authority.count("/register") == 2


async def test_client_that_is_configured_for_the_issuer_is_used_by_the_upstreams_that_it_names(
    upstream: ProtectedUpstream,
) -> None:
    given = provider_settings(upstream.authority.issuer, upstreams=("notes",))
    async with hall_with(upstream, {"acme": given}) as hall:
        visit = await hall.agree(await hall.begin(provider=NEED.provider, scopes=()))
        assert visit.sent["client_id"] == "hall"
        assert visit.sent["resource"] == upstream.url
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        assert upstream.authority.count("/register") == 0
        assert SECRET not in visit.url


async def test_client_that_is_configured_for_other_uses_is_not_used_by_an_upstream(upstream: ProtectedUpstream) -> None:
    """An upstream that names the issuer of another service would get tokens for that service."""
    upstream.authority.metadata = {"registration_endpoint": None}
    async with hall_with(upstream, {"acme": provider_settings(upstream.authority.issuer)}) as hall:
        assert 'upstreams = ["notes"] in [providers.acme]' in await refusal(hall)


async def test_authorization_server_without_registration_names_the_settings_to_add(
    upstream: ProtectedUpstream,
) -> None:
    upstream.authority.metadata = {"registration_endpoint": None}
    async with hall_with(upstream) as hall:
        words = await refusal(hall)
        assert f'[providers.notes] with issuer = "{upstream.authority.issuer}", client_id, client_secret' in words
        assert REDIRECT in words


async def test_client_document_is_the_client_id_where_the_server_takes_it(upstream: ProtectedUpstream) -> None:
    upstream.authority.metadata = {"client_id_metadata_document_supported": True}
    async with hall_with(upstream, address="https://hall.example.com") as hall:
        begun = await hall.begin(provider=NEED.provider, scopes=())
        visit = await hall.agree(begun)
        assert visit.sent["client_id"] == "https://hall.example.com/oauth/client.json"
        assert visit.sent["redirect_uri"] == "https://hall.example.com/oauth/callback"
        assert upstream.authority.count("/register") == 0


async def test_client_document_of_a_server_without_iss_has_the_redirect_of_that_issuer(
    upstream: ProtectedUpstream,
) -> None:
    upstream.authority.metadata = {
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": None,
    }
    base = "https://hall.example.com"
    async with hall_with(upstream, address=base) as hall:
        sent = (await hall.agree(await hall.begin(provider=NEED.provider, scopes=()))).sent
        document = client_document(base, sent["client_id"].removeprefix(base))
        assert document is not None
        assert document["client_id"] == sent["client_id"]
        assert document["redirect_uris"] == [sent["redirect_uri"]]


@pytest.mark.parametrize(
    "path", ["/oauth/client/x.json", "/oauth/client/../x.json", "/oauth/client/0123456789ABCDEF.json"]
)
def test_client_document_of_another_path_does_not_exist(path: str) -> None:
    assert client_document(HALL, f"/oauth/client/{path}") is None


async def test_offline_access_is_asked_for_where_the_server_knows_it(upstream: ProtectedUpstream) -> None:
    upstream.metadata = {"scopes_supported": ["notes.read"]}
    upstream.authority.metadata = {"scopes_supported": ["notes.read", "offline_access"]}
    async with hall_with(upstream) as hall:
        visit = await hall.agree(await hall.begin(provider=NEED.provider, scopes=()))
        assert visit.sent["scope"] == "notes.read offline_access"


async def test_scope_is_left_out_where_nobody_names_one(upstream: ProtectedUpstream) -> None:
    upstream.authority.metadata = {"scopes_supported": ["offline_access"]}
    async with hall_with(upstream) as hall:
        visit = await hall.agree(await hall.begin(provider=NEED.provider, scopes=()))
        assert "scope" not in visit.sent


@pytest.mark.parametrize("iss", [None, "https://attacker.example.com"])
async def test_callback_of_another_issuer_is_refused(upstream: ProtectedUpstream, iss: str | None) -> None:
    upstream.authority.callback = {"iss": iss}
    async with hall_with(upstream) as hall:
        visit = await hall.agree(await hall.begin(provider=NEED.provider, scopes=()))
        with pytest.raises(LinkFailed, match="does not come from the provider"):
            await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
        assert upstream.authority.count("/token") == 0


async def test_device_code_links_an_account_at_an_upstream(upstream: ProtectedUpstream) -> None:
    authority = upstream.authority
    authority.metadata = {"device_authorization_endpoint": f"{authority.issuer}/device"}
    answer = {"device_code": "d" * 20, "user_code": "ABCD-EFGH", "verification_uri": "https://as.example.com/device"}
    authority.paths["/device"] = lambda _: json_response(answer)

    async def no_wait(_: float) -> None:
        await asyncio.sleep(0)

    async with hall_with(upstream, sleep=no_wait) as hall:
        begun = await hall.begin(provider=NEED.provider, scopes=(), how="device")
        assert (await hall.broker.start_device(begun)).user_code == "ABCD-EFGH"
        await hall.broker.devices.tasks.wait()
        assert await hall.state(begun) == "completed"
        assert authority.last("/device").form["resource"] == upstream.url


def test_probe_is_a_request_without_credentials(upstream: ProtectedUpstream) -> None:
    async def run() -> list[HttpRequest]:
        async with hall_with(upstream) as hall:
            await hall.begin(provider=NEED.provider, scopes=())
        return upstream.received

    assert all("authorization" not in each.headers for each in asyncio.run(run()))
