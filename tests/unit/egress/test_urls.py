"""URLs that may be asked for, URLs that may not, and what messages say of them."""

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolhall.egress.addresses import EgressAllowlist, EgressRefused
from toolhall.egress.urls import Url, check_header_value, display_url, parse_url, path_segment


def test_parse_url_parts(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, Url]] = [
        ("https://example.com", Url("https", "example.com", 443, "", None)),
        ("HTTPS://Example.COM:8443/a/b?c=d&e", Url("https", "example.com", 8443, "/a/b", "c=d&e")),
        ("https://example.com/?", Url("https", "example.com", 443, "/", "")),
        ("https://1.1.1.1/a%2Fb", Url("https", "1.1.1.1", 443, "/a%2Fb", None)),
        ("https://[2606:4700:4700:0::1111]/", Url("https", "2606:4700:4700::1111", 443, "/", None)),
        ("https://bücher.example:444/x", Url("https", "xn--bcher-kva.example", 444, "/x", None)),
        ("https://example.com/a:b@c", Url("https", "example.com", 443, "/a:b@c", None)),
        ("https://example.com/...", Url("https", "example.com", 443, "/...", None)),
    ]
    for url, read in rows:
        with subtests.test(repr((url, read))):
            assert parse_url(url) == read


def test_parse_url_plain_url_round_trips(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "https://example.com/a?b=c",
        "https://example.com:8443",
        "https://[2606:4700:4700::1111]:8443/",
        "https://1.1.1.1",
    ]
    for url in rows:
        with subtests.test(repr(url)):
            assert str(parse_url(url)) == url


def test_parse_url_ambiguous_url_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("", "not an https URL"),
        ("example.com", "not an https URL"),
        ("//example.com", "not an https URL"),
        ("https:example.com", "not an https URL"),
        ("https:/example.com", "not an https URL"),
        (" https://example.com", "not an https URL"),
        ("wss://example.com", "not an https URL"),
        ("http://example.com", "write https"),
        ("https://", "must be https://host"),
        ("https:///path", "must be https://host"),
        ("https://user@example.com", "without a user"),
        ("https://user:password@example.com", "without a user"),
        ("https://example.com#top", "a fragment"),
        ("https://example.com:", "must be"),
        ("https://example.com:0", "must be"),
        ("https://example.com:080", "must be"),
        ("https://example.com:65536", "65535"),
        ("https://example.com:٤٤٣", "percent-encode"),
        ("https://example.com\\@evil.example", "percent-encode"),
        ("https://example.com/\r\nHost: evil", "percent-encode"),
        ("https://example.com/a b", "percent-encode"),
        ("https://example.com/\x00", "percent-encode"),
        ("https://example.com/ä", "percent-encode"),
        ("https://example.com/%zz", "percent-encode"),
        ("https://exa%6dple.com/", "neither a hostname"),
        ("https://example.com./", "neither a hostname"),
        ("https://example..com/", "neither a hostname"),
        ("https://[fe80::1%25eth0]/", "must be"),
        ("https://[::1", "must be"),
        ("https://[1.1.1.1]/", "neither a hostname"),
        ("https://[v1.a]/", "must be"),
        ("https://1.1.1/", "neither a hostname"),
        ("https://example.com/../admin", ". or .."),
        ("https://example.com/a/./b", ". or .."),
        ("https://example.com/%2e%2E/admin", ". or .."),
        ("https://example.com/..%2fadmin", ". or .."),
        ("https://example.com/%252e%252e/", ". or .."),
        ("https://example.com/..%5cadmin", ". or .."),
        ("https://example.com/" + "a" * 9_000, "longer than"),
    ]
    for url, why in rows:
        with subtests.test(repr((url, why))):
            with pytest.raises(EgressRefused) as refused:
                parse_url(url)
            assert why in str(refused.value)
            assert str(refused.value).isprintable()


def test_parse_url_http_to_allowed_loopback(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["http://localhost:9", "http://127.0.0.1:9/a", "http://[::1]:9", "http://a.localhost:9"]
    for url in rows:
        with subtests.test(repr(url)):
            with pytest.raises(EgressRefused, match="egress_allow"):
                parse_url(url)
            with pytest.raises(EgressRefused, match="egress_allow"):
                parse_url(url.replace("http:", "https:"))
            host = url.removeprefix("http://").partition("/")[0]
            assert parse_url(url, EgressAllowlist([host])).scheme == "http"


def test_parse_url_http_beyond_loopback_is_refused() -> None:
    allowed = EgressAllowlist(["10.0.0.0/8", "db.internal"])
    assert parse_url("https://10.0.0.1/", allowed).host == "10.0.0.1"
    for url in ("http://10.0.0.1/", "http://db.internal/"):
        with pytest.raises(EgressRefused, match="write https"):
            parse_url(url, allowed)


def test_refusal_names_the_allowlist_entry() -> None:
    for url in ("https://10.0.0.1:8443/", "https://[fc00::1]/", "https://169.254.169.254/", "http://localhost:9/"):
        with pytest.raises(EgressRefused) as refused:
            parse_url(url)
        entry = str(refused.value).split("'")[-2]
        assert str(parse_url(url, EgressAllowlist([entry]))) == url


@given(st.text(max_size=60) | st.text("ht ps:/.@[]%?#\\0x7f1a。１ä-", max_size=40).map("https://".__add__))
@example("https://a.example?b@evil.example")
@example("https://\uff41.example")
def test_parse_url_agrees_with_httpx(url: str) -> None:
    """Two readers that disagree are how a check is fooled."""
    try:
        read = parse_url(url)
    except EgressRefused:
        return
    for other in (httpx2.URL(url), httpx2.URL(str(read))):
        assert (other.scheme, other.raw_host.decode(), other.port or 443) == (read.scheme, read.host, read.port)
        assert not other.userinfo


@given(st.text(max_size=40) | st.text("./%2eEfF\\5c", max_size=12))
def test_path_segment_stays_one_segment(value: str) -> None:
    try:
        part = path_segment(value)
    except (EgressRefused, UnicodeEncodeError):
        return
    url = httpx2.URL(f"https://example.com/items/{part}/end")
    assert url.raw_path == f"/items/{part}/end".encode()
    assert not set(part) & set("/\\?#")
    assert parse_url(str(url)).path == f"/items/{part}/end"


def test_path_segment_with_dots_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["", ".", "..", "../admin", "a/../b", "..\\admin", "%2e%2e", "%252e%252e%252fadmin"]
    for value in rows:
        with subtests.test(repr(value)), pytest.raises(EgressRefused, match="send the plain name"):
            path_segment(value)


def test_path_segment_is_encoded() -> None:
    assert path_segment("a b/c?d#e%ä") == "a%20b%2Fc%3Fd%23e%25%C3%A4"
    assert path_segment("v1.2..3") == "v1.2..3"


def test_header_value_with_line_break_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["a\r\nX: y", "a\n", "\x00", "\x7f", "ä"]
    for value in rows:
        with subtests.test(repr(value)):
            with pytest.raises(EgressRefused, match="encode them"):
                check_header_value(value)
            assert check_header_value("plain \t value~") == "plain \t value~"


def test_display_url_has_no_secrets_and_one_line(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("https://user:hunter2@example.com/a?token=hunter2#hunter2", "https://example.com/a"),
        ("https://user:hunt@hunter2@example.com/a", "https://example.com/a"),
        ("ftp://hunter2@example.com", "example.com"),
        ("https://example.com/\r\nforged", "https://example.com/\\r\\nforged"),
        ("https://example.com/" + "a" * 500, "https://example.com/" + "a" * 180 + "..."),
    ]
    for url, said in rows:
        with subtests.test(repr((url, said))):
            assert display_url(url) == said


def test_url_repr_has_no_query() -> None:
    url = parse_url("https://example.com/a?token=hunter2")
    assert "hunter2" not in repr(url)
    assert url.display == "https://example.com/a"
