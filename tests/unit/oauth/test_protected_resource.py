"""Challenges and protected resource metadata: what is read, and what is not believed."""

import pytest

from toolhall.oauth.protected_resource import (
    MAX_CHALLENGE,
    Challenge,
    canonical_resource,
    is_resource_of,
    may_name,
    parse_challenge,
    read_resource_metadata,
    resource_metadata_urls,
)
from toolhall.oauth.providers import DiscoveryFailed

URL = "https://mcp.example.com/mcp"
METADATA = "https://mcp.example.com/meta"


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        ("Bearer", Challenge()),
        (f'Bearer resource_metadata="{METADATA}"', Challenge(metadata_url=METADATA)),
        (f"bearer resource_metadata={METADATA} , scope=a", Challenge(metadata_url=METADATA, scopes=("a",))),
        ('Bearer error="insufficient_scope", scope="a b a"', Challenge(error="insufficient_scope", scopes=("a", "b"))),
        (r'Bearer error_description="say \"scope=x\", please", scope="y"', Challenge(scopes=("y",))),
        ('Basic realm="x", Bearer scope="y", DPoP scope="z"', Challenge(scopes=("y",))),
        ('Negotiate abc==, Bearer scope="y"', Challenge(scopes=("y",))),
        ('Bearer scope="a", scope="b"', Challenge(scopes=("a",))),
        ('Bearer scope="a\x00b c"', Challenge(scopes=("c",))),
    ],
)
def test_parse_challenge_reads_the_first_bearer_challenge(header: str, challenge: Challenge) -> None:
    assert parse_challenge(header) == challenge


@pytest.mark.parametrize("header", [None, "", "Basic realm=x", "Bearer " + "x" * MAX_CHALLENGE])
def test_parse_challenge_without_a_bearer_challenge_is_none(header: str | None) -> None:
    assert parse_challenge(header) is None


def test_resource_metadata_urls_begin_with_the_challenge_then_the_path_then_the_root() -> None:
    path, root = (f"https://mcp.example.com/.well-known/oauth-protected-resource{each}" for each in ("/mcp", ""))
    assert resource_metadata_urls(URL, None) == (path, root)
    assert resource_metadata_urls(URL, Challenge(metadata_url=METADATA)) == (METADATA, path, root)
    assert resource_metadata_urls(URL, Challenge(metadata_url="https://127.0.0.1/meta")) == (path, root)


@pytest.mark.parametrize(
    "resource",
    [URL, f"{URL}/", "https://MCP.example.com:443/mcp", "https://mcp.example.com", "https://mcp.example.com/"],
)
def test_is_resource_of_the_url_or_its_origin(resource: str) -> None:
    assert is_resource_of(resource, f"{URL}?key=1")


@pytest.mark.parametrize(
    "resource",
    [
        "https://evil.example.com/mcp",
        "https://mcp.example.com/other",
        "https://mcp.example.com/mcp/deeper",
        "https://mcp.example.com:8443/mcp",
        "http://mcp.example.com/mcp",
        "https://user@mcp.example.com/mcp",
        "https://mcp.example.com.evil.example/mcp",
        "not a url",
        "",
    ],
)
def test_is_resource_of_anything_else_is_false(resource: str) -> None:
    assert not is_resource_of(resource, URL)


def test_read_resource_metadata_of_another_resource_names_both() -> None:
    document = {"resource": "https://evil.example.com/mcp", "authorization_servers": ["https://as.example.com"]}
    with pytest.raises(DiscoveryFailed) as failed:
        read_resource_metadata(document, URL)
    assert "https://evil.example.com/mcp" in str(failed.value)
    assert URL in str(failed.value)


def test_read_resource_metadata_leaves_out_servers_that_a_public_upstream_may_not_name() -> None:
    named = [
        "http://127.0.0.1:9",
        "https://10.0.0.1",
        "https://as.example.com",
        5,
        "https://as.example.com/" + "x" * 600,
    ]
    found = read_resource_metadata({"resource": URL, "authorization_servers": named, "scopes_supported": ["a", 1]}, URL)
    assert found is not None
    assert found.issuers == ("https://as.example.com",)
    assert found.scopes == ("a",)
    with pytest.raises(DiscoveryFailed, match="neither public https addresses nor at the upstream"):
        read_resource_metadata({"resource": URL, "authorization_servers": named[:2]}, URL)


def test_read_resource_metadata_without_servers_is_none() -> None:
    assert read_resource_metadata({"resource": URL}, URL) is None


def test_may_name_private_addresses_only_if_the_upstream_is_private() -> None:
    assert may_name("http://127.0.0.1:1/mcp", "http://127.0.0.1:2")
    assert may_name(URL, "https://as.example.com")
    assert not may_name(URL, "http://127.0.0.1:2")
    assert not may_name(URL, "https://192.168.0.1/x")


def test_canonical_resource_has_no_query_default_port_or_trailing_slash() -> None:
    assert canonical_resource("HTTPS://Example.com:443/a/?k=v#f") == "https://example.com/a"
    assert canonical_resource("https://[2001:DB8::1]:8443/") == "https://[2001:db8::1]:8443"
