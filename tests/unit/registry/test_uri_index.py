"""The index of URIs finds what a search through all templates finds, and tries few of them."""

import pytest

from toolhall.model.uri_template import UriTemplate
from toolhall.registry.uri_index import UriIndex

TEMPLATES = [
    "s://{x}", "s://{+x}", "s://{x}/b", "s://a/{x}", "s://a/{+x}", "s://a/b{?q}", "s://a/b/{x}", "s://a/{x}/c", "s://a/{x}/{y}",
    "s://a/{x}/{y}?k=1{&q}", "s://a{/x*}", "s://ab/{x}", "s://{x}.{y}", "t://{x}", "s://ü/{x}/d", "s://a/{x}?p=/c",
]  # fmt: skip
URIS = [
    "s://", "s://a", "s://a/b", "s://a/b?q=1", "s://a/b/c", "s://a/z/c", "s://a/z/d", "s://a/z/d?k=1&q=2", "s://ab/c",
    "s://ab",
    "s://a.b", "s://x/b", "s://x/y/z", "t://x", "t://x/y", "u://x", "s://ü/1/d", "s://%C3%BC/1/d", "s://a/../b",
    "s://a/z", "", "~", "s://a/z?p=/c",
]  # fmt: skip
INDEX = UriIndex({"s://a/b": "exact"}, [(UriTemplate(text), text) for text in TEMPLATES])


@pytest.mark.parametrize("uri", URIS)
def test_finds_what_a_search_through_all_finds(uri: str) -> None:
    matching = [template for text in TEMPLATES if (template := UriTemplate(text)).match(uri) is not None]
    found = INDEX.find(uri)
    if uri == "s://a/b":
        assert found is not None
        assert (found.value, found.template, found.variables) == ("exact", None, {})
    elif matching:
        assert found is not None
        best = min(matching, key=lambda each: each.specificity)
        assert (found.value, found.template) == (best.text, best)
        assert found.variables == best.match(uri)
    else:
        assert found is None


def test_each_template_is_found() -> None:
    found = {match.value for uri in URIS if (match := INDEX.find(uri))}
    assert found >= set(TEMPLATES) - {"s://{+x}", "s://a{/x*}", "s://a/{+x}"}


def test_of_equals_the_first_is_found() -> None:
    index = UriIndex({}, [(UriTemplate("s://{b}"), 1), (UriTemplate("s://{a}"), 2)])
    found = index.find("s://x")
    assert found is not None
    assert found.value == 1


def test_an_empty_index_finds_nothing() -> None:
    assert UriIndex[int]({}).find("s://x") is None


@pytest.mark.parametrize(
    "text", ["s{n}://o/{{x}}", "s://o{n}/{{x}}/y", "s://{{x}}/o{n}/{{y}}", "s://{{x}}/{{y}}/o{n}{{?q}}"]
)
@pytest.mark.parametrize(
    "uri", ["s7://o/x", "s://o7/x/y", "s://x/o7/y", "s://x/y/o7?q=1", "s://" + "a" * 8_000, "s://" + "/" * 8_000]
)
def test_few_of_thousands_of_templates_are_tried(text: str, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[str]()
    match_ascii = UriTemplate.match_ascii

    def counted(template: UriTemplate, encoded: str) -> object:
        tried.append(template.text)
        return match_ascii(template, encoded)

    index = UriIndex({}, [(UriTemplate(text.format(n=number)), number) for number in range(2_000)])
    monkeypatch.setattr(UriTemplate, "match_ascii", counted)
    found = index.find(uri)
    assert found is None or found.value == 7
    assert len(tried) <= 1
