"""What UriTemplate.covers proves holds: every URI that the old template matches is matched by the new one."""

from hypothesis import assume, given
from hypothesis import strategies as st

from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate

LITERALS = st.sampled_from(["", "/", "a", "/b/", "-", ".", "?q=", "&", "%2F", "#"])
EXPRESSIONS = st.sampled_from(
    ["{x}", "{y}", "{+x}", "{/x*}", "{.y}", "{;x}", "{?x}", "{?x,y}", "{&y}", "{&x,y}", "{#x}"]
)
TEXTS = st.lists(st.tuples(LITERALS, EXPRESSIONS | st.just("")), max_size=4).map(
    lambda parts: "s://" + "".join(literal + expression for literal, expression in parts)
)
URIS = st.text(alphabet="ab/?&=#.;%2Fxyq-", max_size=16).map(lambda text: f"s://{text}")


@st.composite
def templates(draw: st.DrawFn, texts: st.SearchStrategy[str] = TEXTS) -> UriTemplate:
    try:
        return UriTemplate(draw(texts), any_path=draw(st.booleans()))
    except BadUriTemplate:
        assume(False)
        raise


@st.composite
def similar_pairs(draw: st.DrawFn) -> tuple[UriTemplate, UriTemplate]:
    """A template, and it again with a change: often one covers the other."""
    text = draw(TEXTS)
    change = draw(
        st.sampled_from([("", "{?z}"), ("{?x}", "{?x,z}"), ("{x}", "{z}"), ("{&y}", "{&y,z}"), ("{+x}", "{+z}")])
    )
    changed = text.replace(*change) if change[0] else text + change[1]
    return draw(templates(st.just(text))), draw(templates(st.just(changed)))


@given(similar_pairs() | st.tuples(templates(), templates()), st.lists(URIS, max_size=8), st.data())
def test_covers_means_that_whatever_matched_still_matches(
    pair: tuple[UriTemplate, UriTemplate], uris: list[str], data: st.DataObject
) -> None:
    old, new = pair
    assume(new.covers(old))
    values = {name: data.draw(st.text(alphabet="ab/?&=#. ;%", max_size=6)) for name in old.variables}
    lists = {name: [value] for name, value in values.items() if f"{name}*" in old.text}
    for uri in (*uris, old.expand({**values, **lists})):
        if old.match(uri) is not None:
            assert new.match(uri) is not None, (old, new, uri)
