# ruff: noqa: N802 - tests carry the names of their rows
"""Somebody who cannot choose the host tries by other means: redirects, paths, headers, the environment."""

import pytest

from tests.unit.egress.loopback_server import loopback_server, reply
from toolhall.egress.addresses import EgressFailed, EgressRefused
from toolhall.egress.client import EgressClient
from toolhall.egress.urls import path_segment

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
ELSEWHERE = (
    "X-Atlassian-Jira-Url",
    "mcp-init-host",
    "X-Forwarded-Host",
    "X-Original-URL",
    "X-Rewrite-URL",
    "Forwarded",
)


@pytest.mark.threat("E3")
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_E3_redirect_is_not_followed_and_followed_by_choice_is_checked_again(status: str) -> None:
    """A redirect inside is an answer like any other; who follows it by choice meets the same guard again."""
    async with (
        loopback_server() as trap,
        loopback_server(reply(b"", f"Location: {trap.url}/admin", status=status)) as server,
    ):
        assert (await server.egress.fetch("GET", server.url)).status == int(status[:3])
        async with server.egress.http_client() as client:
            assert (await client.get(server.url)).status_code == int(status[:3])
            with pytest.raises(EgressRefused, match="egress_allow"):
                await client.get(server.url, follow_redirects=True)
    assert (server.connections, trap.connections) == (3, 0)


@pytest.mark.threat("E4")
@pytest.mark.parametrize(
    "value", ["../../admin", "..", "%2e%2e/admin", "%252e%252e%252fadmin", "..\\admin", "a/../../b"]
)
async def test_E4_path_segment_with_dot_dot_is_refused(value: str) -> None:
    """However the steps are written, with or without encoding the value, the server never sees them."""
    async with loopback_server() as server, server.egress.http_client(base_url=f"{server.url}/v1/items") as client:
        with pytest.raises(EgressRefused):
            await client.get(f"/{value}")
        with pytest.raises(EgressRefused, match="send the plain name or id"):
            await client.get(f"/{path_segment(value)}")
    assert server.connections == 0


@pytest.mark.threat("E4")
async def test_E4_path_segment_with_slash_and_question_mark_is_percent_encoded() -> None:
    """Slashes and question marks of a value begin no other part, and no query."""
    async with loopback_server() as server, server.egress.http_client(base_url=f"{server.url}/v1/items") as client:
        await client.get(f"/{path_segment('/admin?all#x')}/name")
    assert [head.split()[1] for head in server.heads] == ["/v1/items/%2Fadmin%3Fall%23x/name"]


@pytest.mark.threat("E5")
@pytest.mark.parametrize("name", ELSEWHERE)
async def test_E5_request_headers_that_name_another_host_do_not_change_the_destination(name: str) -> None:
    """A header that names another server is only a header: the request goes where its URL says."""
    async with loopback_server() as trap, loopback_server() as server:
        async with server.egress.http_client(headers={name: trap.url}) as client:
            assert (await client.get(server.url, headers={name: f"127.0.0.1:{trap.port}"})).status_code == 200
        await server.egress.fetch("GET", server.url, headers={name: trap.url})
    assert (server.connections, trap.connections) == (2, 0)
    assert all(f"host: {server.entry}\r\n" in head.lower() for head in server.heads)


@pytest.mark.threat("E5")
async def test_E5_host_header_connect_and_upgrade_cannot_be_set_by_a_tool() -> None:
    """Another Host, a second one, or what the library offers to choose target and certificate does not get out."""
    async with loopback_server() as server, server.egress.http_client() as client:
        for hosts in ([("host", "evil.example")], [("host", server.entry), ("host", "evil.example")]):
            with pytest.raises(EgressRefused, match="leave it out"):
                await client.get(server.url, headers=hosts)
        with pytest.raises(EgressRefused, match="CONNECT"):
            await client.request("CONNECT", server.url)
        with pytest.raises(EgressRefused, match="Upgrade"):
            await client.get(server.url, headers={"connection": "upgrade", "upgrade": "websocket"})
        found = await client.get(f"{server.url}/here", extensions={"target": b"/there", "sni_hostname": "evil.example"})
        assert "network_stream" not in found.extensions
    assert [head.split()[1] for head in server.heads] == ["/here"]


@pytest.mark.threat("E6")
async def test_E6_proxy_variables_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies that the environment names are not used: they would connect to anything for anybody."""
    async with loopback_server() as proxy, loopback_server() as server:
        for name in PROXIES:
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        assert (await server.egress.fetch("GET", server.url)).status == 200
        async with server.egress.http_client() as client:
            assert (await client.get(server.url)).status_code == 200
    assert (server.connections, proxy.connections) == (2, 0)


@pytest.mark.threat("E8")
@pytest.mark.parametrize("value", ["a\r\nX-Admin: yes", "a\nb", "a\rb", "a\r\n\r\nGET /admin HTTP/1.1", "\x00"])
async def test_E8_line_break_in_a_request_header_is_refused_before_sending(value: str) -> None:
    """Line breaks in the value or the name of a header are refused with what to do, before anything is sent."""
    async with loopback_server() as server, server.egress.http_client() as client:
        with pytest.raises(EgressRefused, match="encode them"):
            await server.egress.fetch("GET", server.url, headers={"x-name": value})
        with pytest.raises(EgressRefused, match="encode them"):
            server.egress.http_client(headers={"x-name": value})
        with pytest.raises(EgressRefused, match="encode them"):
            await client.get(server.url, headers={"x-name": value})
        with pytest.raises(EgressRefused, match="letters, digits"):
            await client.get(server.url, headers={f"x{value}": "a"})
    assert server.connections == 0


@pytest.mark.threat("G8")
@pytest.mark.parametrize("way", ["refused", "unreadable", "gone"])
async def test_G8_egress_error_message_holds_no_query_credentials_or_form_values(way: str) -> None:
    """A refusal or failure tells host and path: no query, no user, no header, no form."""
    async with loopback_server(reply(b"", "Content-Encoding: br")) as server:
        url = f"http://me:hunter2@{server.entry}/" if way == "refused" else f"{server.url}/token"
        if way != "gone":
            await fails(server.egress, url)
    if way == "gone":
        await fails(server.egress, url)


async def fails(door: EgressClient, url: str) -> None:
    """A request full of secrets that comes to nothing, and tells none of them."""
    headers, form = {"authorization": "Bearer hunter2"}, {"client_secret": "hunter2"}
    with pytest.raises((EgressRefused, EgressFailed)) as raised:
        await door.fetch("POST", f"{url}?token=hunter2", headers=headers, form=form)
    assert "127.0.0.1" in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
