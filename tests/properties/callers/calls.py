"""Calls of every kind: callers, tools, arguments that fit and arguments that do not."""

from typing import Any

from hypothesis import strategies as st

from tests.harness.dialect_clients import LEFT_OUT, Call
from tests.properties.callers.desk import RAISED, SHAPES, VERSION
from tests.properties.callers.house import ADA, BOB, EVE

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.one_of(
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**20 - 1, 10**20, -(10**40)]),
)
scalars = st.none() | st.booleans() | numbers | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6
)


def nested(depth: int, core: Any) -> Any:
    """A value inside so many objects and lists."""
    for level in range(depth):
        core = [core] if level % 2 else {"deep": core}
    return core


# Arguments may be 64 levels deep in every dialect, whatever is around them.
deep = st.builds(nested, st.integers(1, 80) | st.integers(61, 65), scalars)
data = values | deep
# What a tool returns that promises nothing must tell its own kind: the older revisions and objects have one form each.
unpromised: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 9),
    st.lists(scalars, max_size=3),
    st.builds("~{}".format, text),
    st.fixed_dictionaries({"kept": values}),
)
note = st.fixed_dictionaries({"text": text}, optional={"count": st.integers(-9, 9) | numbers})

FITTING: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    **{name: st.fixed_dictionaries({"text": text}) for name in SHAPES},
    **{name: st.fixed_dictionaries({"data": data}) for name in ("write", "echo", "report")},
    "free": st.fixed_dictionaries({"data": unpromised}),
    "read": note,
    "read_in_thread": note,
    "shred": st.fixed_dictionaries({"number": st.integers() | numbers}),
    "add": st.fixed_dictionaries({"numbers": st.lists(numbers, max_size=4)}),
    "sort": st.fixed_dictionaries({"numbers": st.lists(st.integers(-(2**40), 2**40), max_size=4)}),
    "refuse": st.fixed_dictionaries({"kind": st.sampled_from([*RAISED, "Broken", "mercy"])}),
}
CALLERS = [ADA, ADA, ADA, BOB, EVE, None]
TOOLS = [*(("Desk", name) for name in SHAPES), ("Desk", "nowhere"), ("Cellar", "read")]
not_an_object = st.lists(scalars, max_size=2) | text | numbers | st.booleans()


@st.composite
def arguments(draw: st.DrawFn, tool: str) -> Any:
    """Mostly fitting; sometimes with a part too few, too many or wrong, or with no parts at all."""
    fitting = draw(FITTING.get(tool, FITTING["read"]))
    match draw(st.sampled_from(["fit", "fit", "fit", "fit", "missing", "extra", "wrong", "left out", "no object"])):
        case "missing":
            fitting.pop(draw(st.sampled_from(sorted(fitting))))
        case "extra":
            fitting[draw(text)] = draw(values)
        case "wrong" if tool != "free":
            fitting[draw(st.sampled_from(sorted(fitting)))] = draw(values)
        case "left out":
            return LEFT_OUT
        case "no object":
            return draw(not_an_object)
        case _:
            pass
    return fitting


@st.composite
def calls(draw: st.DrawFn, versions: list[str | None]) -> Call:
    """One call, of one of these versions."""
    toolkit, tool = draw(st.sampled_from(TOOLS))
    version, escaped = draw(st.sampled_from(versions)), draw(st.booleans())
    return Call(draw(st.sampled_from(CALLERS)), toolkit, tool, draw(arguments(tool)), version, escaped)


any_version = calls([None])
some_version = calls([None, VERSION, "9.9.9"])
