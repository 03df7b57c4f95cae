"""URI templates: expansion by the examples of RFC 6570, what is refused, and what matches."""

import sys
from types import FrameType

import pytest

from toolhall.model.uri_expansion import MAX_URI_LENGTH, BadUriTemplate, expand_template
from toolhall.model.uri_template import MAX_SEGMENTS, UriTemplate, UriVariables

VALUES = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_list": list[str](),
}
VECTORS = {  # RFC 6570, 1.2 and 3.2: all of levels 1 to 3, and those of level 4 with lists that are not refused
    "{var}": "value",
    "{hello}": "Hello%20World%21",
    "{half}": "50%25",
    "O{empty}X": "OX",
    "O{undef}X": "OX",
    "{x,y}": "1024,768",
    "{x,hello,y}": "1024,Hello%20World%21,768",
    "?{x,empty}": "?1024,",
    "?{x,undef}": "?1024",
    "?{undef,y}": "?768",
    "map?{x,y}": "map?1024,768",
    "{list}": "red,green,blue",
    "{count}": "one,two,three",
    "{+var}": "value",
    "{+hello}": "Hello%20World!",
    "{+half}": "50%25",
    "{base}index": "http%3A%2F%2Fexample.com%2Fhome%2Findex",
    "{+base}index": "http://example.com/home/index",
    "O{+empty}X": "OX",
    "O{+undef}X": "OX",
    "{+path}/here": "/foo/bar/here",
    "here?ref={+path}": "here?ref=/foo/bar",
    "up{+path}{var}/here": "up/foo/barvalue/here",
    "{+x,hello,y}": "1024,Hello%20World!,768",
    "{+path,x}/here": "/foo/bar,1024/here",
    "{+list}": "red,green,blue",
    "{#var}": "#value",
    "X{#var}": "X#value",
    "{#hello}": "#Hello%20World!",
    "X{#hello}": "X#Hello%20World!",
    "{#half}": "#50%25",
    "foo{#empty}": "foo#",
    "foo{#undef}": "foo",
    "{#x,hello,y}": "#1024,Hello%20World!,768",
    "{#path,x}/here": "#/foo/bar,1024/here",
    "{#list}": "#red,green,blue",
    "{.who}": ".fred",
    "{.who,who}": ".fred.fred",
    "{.half,who}": ".50%25.fred",
    "X{.var}": "X.value",
    "X{.empty}": "X.",
    "X{.undef}": "X",
    "X{.x,y}": "X.1024.768",
    "X{.list}": "X.red,green,blue",
    "X{.empty_list}": "X",
    "{/who}": "/fred",
    "{/who,who}": "/fred/fred",
    "{/half,who}": "/50%25/fred",
    "{/who,dub}": "/fred/me%2Ftoo",
    "{/var}": "/value",
    "{/var,empty}": "/value/",
    "{/var,undef}": "/value",
    "{/var,x}/here": "/value/1024/here",
    "{/list}": "/red,green,blue",
    "{/list*}": "/red/green/blue",
    "{/var*}": "/value",
    "{;who}": ";who=fred",
    "{;half}": ";half=50%25",
    "{;empty}": ";empty",
    "{;v,empty,who}": ";v=6;empty;who=fred",
    "{;v,bar,who}": ";v=6;who=fred",
    "{;x,y}": ";x=1024;y=768",
    "{;x,y,empty}": ";x=1024;y=768;empty",
    "{;x,y,undef}": ";x=1024;y=768",
    "{;list}": ";list=red,green,blue",
    "{?who}": "?who=fred",
    "{?half}": "?half=50%25",
    "{?x,y}": "?x=1024&y=768",
    "{?x,y,empty}": "?x=1024&y=768&empty=",
    "{?x,y,undef}": "?x=1024&y=768",
    "{?list}": "?list=red,green,blue",
    "{&who}": "&who=fred",
    "{&half}": "&half=50%25",
    "?fixed=yes{&x}": "?fixed=yes&x=1024",
    "{&x,y,empty}": "&x=1024&y=768&empty=",
    "{&x,y,undef}": "&x=1024&y=768",
    "{&list}": "&list=red,green,blue",
    "/a%20b/ü?": "/a%20b/%C3%BC?",
}


@pytest.mark.requirement("RT-2", "RT-3")
@pytest.mark.parametrize(("text", "expanded"), VECTORS.items())
def test_expands_like_rfc_6570(text: str, expanded: str) -> None:
    assert expand_template(text, VALUES) == expanded


REFUSED = {
    "s://{x:3}": "a prefix cuts the value, so no URI could be matched; write {x}",
    "s://a{?x*}": "'*' would take any query name; name each query variable, such as {?status,limit}",
    "s://{x*}": "'*' is served on paths only; write {/x*} or {+x}",
    "s://{x": "a '{' is not closed",
    "s://x}": "'}' cannot stand in a URI",
    "s://{}": "'' is not a variable",
    "s://{a b}": "'a b' is not a variable; use letters, digits and '_'",
    "s://{=x}": "RFC 6570 gives '=' no meaning; use one of + # . / ; ? &",
    "s://a b": "' ' cannot stand in a URI; write it as %20",
    "s://50%": "write %25 for the character itself",
    "s://\ud800": "a lone surrogate cannot stand in a URI",
    "orders/{id}": "a URI begins with a scheme; write it as 'myapp://orders/{id}'",
    "{scheme}://x": "a URI begins with a scheme",
    "s://{a}{b}": "nothing separates 'a' and 'b'",
    "s://{+a}{b}": "nothing separates 'a' and 'b'",
    "s://{/a*}{b}": "nothing separates 'a' and 'b'",
    "s://{+a}/{+b}": "two variables span segments, so it is unclear where 'b' begins; write {b} for one segment",
    "s://{+a,b}": "two variables span segments",
    "s://{+a}{#b}": "two variables span segments",
    "s://{a}/{a}": "the variable 'a' is there twice",
    "s://{a}{?a}": "the variable 'a' is there twice",
    "s://x{?a}{?b}": "two query expressions; write one at the end: {?a,b}",
    "s://x{?a}/y": "nothing can follow {?a}; write it at the end",
    "s://x?a=1{?b}": "'?' is there already; write {&b} instead of {?b}",
    "s://x{&b}": "there is no '?' before it; write {?b} instead of {&b}",
    "s://" + "/".join(f"{{v{n}}}" for n in range(17)): "more than 16 variables",
    "s://" + "x" * MAX_URI_LENGTH: "longer than 8192 characters",
}


@pytest.mark.requirement("RT-3", "RT-5")
@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_refuses_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadUriTemplate) as caught:
        UriTemplate(text)
    assert reason in str(caught.value)


MATCHES: list[tuple[str, str, UriVariables | None]] = [
    ("s://policy", "s://policy", {}),
    ("s://policy", "s://policy/", None),
    ("s://orders/{id}", "s://orders/17", {"id": "17"}),
    ("s://orders/{id}", "s://orders/", {"id": ""}),
    ("s://orders/{id}", "s://orders/1/2", None),
    ("s://orders/{id}", "s://orders/1%2F2", {"id": "1/2"}),
    ("s://orders/{id}", "s://orders/1?x=2", None),
    ("s://orders/{id}", "s://orders/1#x", None),
    ("s://orders/{id}", "s://orders/ada@example.com", {"id": "ada@example.com"}),
    ("s://orders/{id}", "s://orders/%C3%BC", {"id": "ü"}),
    ("s://orders/{id}", "s://orders/ü", {"id": "ü"}),
    ("s://ü/{id}", "s://ü/1", {"id": "1"}),
    ("s://ü/{id}", "s://%C3%BC/1", {"id": "1"}),
    ("s://orders/{id}", "s://orders/%252F", {"id": "%2F"}),
    ("s://orders/{id}", "s://orders/%FF", None),
    ("s://orders/{id}", "s://orders/%C0%AF", None),
    ("s://orders/{id}", "s://orders/%ED%A0%80", None),
    ("s://orders/{id}", "s://orders/%00", None),
    ("s://orders/{id}", "s://orders/%4", None),
    ("s://orders/{id}", "s://orders/%zz", None),
    ("s://orders/{id}", "s://orders/a b", None),
    ("s://orders/{id}", "s://orders/a\n", None),
    ("s://orders/{id}", "s://orders/\ud800", None),
    ("s://orders/{id}", "s://orders/" + "x" * MAX_URI_LENGTH, None),
    ("s://orders/{id}", "s://orders/" + "ü" * 1_500, None),
    ("s://{name}.txt", "s://a.txt.txt", {"name": "a.txt"}),
    ("s://{name}.txt", "s://.tx", None),
    ("s://ab{x}ba", "s://aba", None),
    ("s://{name}.{type}", "s://a.tar.gz", {"name": "a", "type": "tar.gz"}),
    ("s://{name}.{type}", "s://a%2Eb.c", None),  # would expand to `a.b.c`, which is another name
    ("s://{x,y}", "s://1,2", {"x": "1", "y": "2"}),
    ("s://{x,y}", "s://1,2,3", None),
    ("s://x{.a,b}", "s://x.1.2", {"a": "1", "b": "2"}),
    ("s://x{/a,b}/c", "s://x/1/2/c", {"a": "1", "b": "2"}),
    ("s://x{;a,b}", "s://x;a=1;b=2", {"a": "1", "b": "2"}),
    ("s://x{;a,b}", "s://x;a;b=2", {"a": "", "b": "2"}),
    ("s://x{;a,b}", "s://x;b=2;a=1", None),
    ("s://x{;a}", "s://x;ab=1", None),
    ("s://x{#part}", "s://x#a/b", {"part": "a/b"}),
    ("s://files/{+path}", "s://files/a/b.c", {"path": "a/b.c"}),
    ("s://files/{+path}", "s://files/a%2Fb", {"path": "a/b"}),
    ("s://files/{+path}", "s://files/a?b#c", {"path": "a?b#c"}),
    ("s://files/{+path}", "s://files/a%2520b", None),  # `a%20b` would expand to `a%20b`, which is `a b`
    ("s://files/{+path}/raw", "s://files/a/b/raw", {"path": "a/b"}),
    ("s://{h}/{+path}/v{n}.{t}", "s://h/a/v/b/v1.x", {"h": "h", "path": "a/v/b", "n": "1", "t": "x"}),
    ("s://files{/path*}", "s://files/a/b%2Fc", {"path": ["a", "b/c"]}),
    ("s://files{/path*}", "s://filesa", None),
    ("s://files{/path*}", "s://files/a?b", None),
    ("s://{host}{/path*}", "s://h/a/b", {"host": "h", "path": ["a", "b"]}),
    ("s://{host}{/path*}/end", "s://h/a/end", {"host": "h", "path": ["a"]}),
    ("s://o{?a,b}", "s://o", {}),
    ("s://o{?a,b}", "s://o?b=2", {"b": "2"}),
    ("s://o{?a,b}", "s://o?b=2&a=1", {"a": "1", "b": "2"}),
    ("s://o{?a,b}", "s://o?a=x/y?z", {"a": "x/y?z"}),
    ("s://o{?a,b}", "s://o?a=1%262=3", {"a": "1&2=3"}),
    ("s://o{?a,b}", "s://o?a=1+2", {"a": "1+2"}),
    ("s://o{?a,b}", "s://o?a", {"a": ""}),
    ("s://o{?a,b}", "s://o?a=1&c=1", None),
    ("s://o{?a,b}", "s://o?a=1&a=1", None),
    ("s://o{?a,b}", "s://o?a=1&b=2&a=1", None),
    ("s://o{?a,b}", "s://o?a=1&", None),
    ("s://o{?a,b}", "s://o?", None),
    ("s://o{?a,b}", "s://o?%61=1", None),
    ("s://o{?a,b}", "s://o?a=1#x", None),
    ("s://o{?a,b}", "s://o?a=%FF", None),
    ("s://o?f=1&g=2{&a}", "s://o?f=1&g=2", {}),
    ("s://o?f=1&g=2{&a}", "s://o?f=1&g=2&a=1", {"a": "1"}),
    ("s://o?f=1&g=2{&a}", "s://o?f=1&a=1&g=2", None),
    ("s://o?f={f}&g=2{&a}", "s://o?f=x&g=2&a=1", {"f": "x", "a": "1"}),
    ("s://o?f={f}", "s://o?f=x&g=1", None),
    ("s://files/{+path}{?v}", "s://files/a/b?v=1", {"path": "a/b", "v": "1"}),
    ("s://files/{+path}{?v}", "s://files/a%3Fv=1", None),  # would expand to a query
]  # fmt: skip


@pytest.mark.requirement("RT-6", "RT-7")
@pytest.mark.parametrize(("text", "uri", "values"), MATCHES)
def test_matches(text: str, uri: str, values: UriVariables | None) -> None:
    template = UriTemplate(text)
    assert template.match(uri) == values
    if values:
        assert template.match(template.expand(values)) == values


@pytest.mark.requirement("RT-8")
@pytest.mark.parametrize(
    "path", ["", "/etc", "..", "../a", "a/..", "a/../b", "%2e%2e/a", "..%2fa", "%2Fetc", "..%5Ca", "%5Ca"]
)
def test_paths_out_do_not_match_unless_allowed(path: str) -> None:
    assert UriTemplate("s://files/{+path}").match(f"s://files/{path}") is None
    assert UriTemplate("s://files{/path*}").match(f"s://files/{path}") is None
    assert UriTemplate("s://files/{+path}", any_path=True).match(f"s://files/{path}") is not None
    assert UriTemplate("s://files{/path*}", any_path=True).match(f"s://files/{path}") is not None


def test_dots_inside_names_are_no_way_out() -> None:
    assert UriTemplate("s://files/{+path}").match("s://files/a..b/...") == {"path": "a..b/..."}
    assert UriTemplate("s://files{/path*}", any_path=True).match("s://files") == {"path": []}


def test_describes_itself() -> None:
    template = UriTemplate("s://o/{a}{.b}{?c,d}")
    assert template.variables == ("a", "b", "c", "d")
    assert template.query_variables == ("c", "d")
    assert template.is_template
    assert template.prefix == "s://o/"
    assert template.literal_length == len("s://o/.")
    assert not UriTemplate("s://o").is_template
    assert UriTemplate("s://o/{a}/x").segments == ("s:", "", "o", None, "x")
    assert UriTemplate("s://o/{+a}/x").segments is None
    assert UriTemplate("s://o") == UriTemplate("s://o") != UriTemplate("s://o", any_path=True)


@pytest.mark.requirement("RT-9")
@pytest.mark.parametrize(
    ("text", "other", "equal"),
    [
        ("s://{a}/x", "s://{b}/x", True),
        ("s://h{/a}", "s://h/{b}", True),
        ("s://h{?a}", "s://h{?b,c}", True),  # both match `s://h`
        ("s://h/{a}", "s://h/{+a}", False),
        ("s://h/{+a}", "s://h{/a*}", False),
        ("s://h{;a}", "s://h{;b}", False),
        ("s://{a}/x", "s://{a}/y", False),
    ],
)
def test_shape_is_equal_but_for_names(text: str, other: str, equal: bool) -> None:
    assert (UriTemplate(text).shape == UriTemplate(other).shape) is equal


HOSTILE = {
    "s://{a}.{b}.{c}": ["." * 8_180, "a." * 4_090, "%2E." * 2_045],
    "s://{a}ab{b}ab{c}": ["a" * 8_180, "ab" * 4_090, "%61b" * 2_045],
    "s://{+path}/{n}.{t}": ["/" * 8_180, "/." * 4_090, "%2F" * 2_726, "." * 8_180],
    "s://{host}{/path*}": ["a" * 8_180, "%41" * 2_726],
    "s://x{?a,b}": ["?" * 8_180, "?a=" + "&" * 8_000, "?a=1&a=1" * 1_000, "?a=" + "%C3%A9" * 1_360],
    "s://{x}" + "a" * 90 + "b{y}": ["a" * 8_180],
}


def calls_during(template: UriTemplate, uri: str) -> int:
    """How many functions run, in Python and in C, while a URI is matched; each reads its text once."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        template.match(uri)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.requirement("RT-4")
@pytest.mark.threat("F9")
@pytest.mark.parametrize(("text", "tail"), [(text, tail) for text, tails in HOSTILE.items() for tail in tails])
def test_work_does_not_grow_with_a_hostile_uri(text: str, tail: str) -> None:
    """The number of searches in a URI depends on the template only; decoding takes a few steps for each triplet."""
    template = UriTemplate(text)
    assert MAX_URI_LENGTH - 200 < len(f"s://x{tail}") <= MAX_URI_LENGTH
    assert calls_during(template, f"s://x{tail}") <= 40 + 40 * len(template.variables) + 3 * tail.count("%")


@pytest.mark.threat("F9")
def test_exploded_paths_have_a_bounded_number_of_segments() -> None:
    """Each segment takes a few steps, so their number is bounded."""
    template = UriTemplate("s://x{/path*}")
    assert template.match("s://x" + "/a" * MAX_SEGMENTS) == {"path": ["a"] * MAX_SEGMENTS}
    assert template.match("s://x" + "/a" * (MAX_SEGMENTS + 1)) is None
    assert calls_during(template, "s://x" + "/a" * MAX_SEGMENTS) <= 40 + 4 * MAX_SEGMENTS
    assert calls_during(template, "s://x" + "/a" * 4_000) <= 40
