"""A call that is written from a template has the bytes of the whole message."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from toolhall.dialects.hub.call_messages import (
    REPORTS,
    CallContext,
    CallerPayload,
    CallTemplate,
    read_hub_message,
    remote_call,
    write_call,
)
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import CLIENT_FEATURES

TEXT = st.text(max_size=8)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))


SHARED = st.tuples(
    st.tuples(TEXT, TEXT, TEXT),
    st.builds(CallerPayload, TEXT, st.none() | TEXT, scopes=st.lists(TEXT, max_size=2).map(tuple)),
    st.lists(st.sampled_from(CLIENT_FEATURES), unique=True).map(tuple),
)


@settings(max_examples=examples(200))
@given(
    SHARED,
    TEXT,
    st.text(min_size=1, max_size=8),
    st.dictionaries(TEXT, VALUES, max_size=3),
    st.none() | st.floats(0, 1e6),
)
def test_call_template_writes_the_same_bytes_as_the_whole_message(
    shared: tuple[tuple[str, str, str], CallerPayload, tuple[str, ...]],
    call_id: str,
    hall_id: str,
    params: JsonObject,
    timeout: float | None,
) -> None:
    names, caller, can = shared
    written = CallTemplate(names, caller, can).write(call_id, encode(params), hall_id, timeout)
    whole = remote_call(call_id, names, params, CallContext(hall_id, timeout, caller, can, reports=REPORTS))
    assert written == write_call(whole)
    assert read_hub_message(written) == whole
