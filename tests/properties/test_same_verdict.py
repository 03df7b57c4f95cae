# ruff: noqa: N802 - tests carry the names of their rows
"""Keys, grants and the ladder decide alike in every dialect and revision, as a plain reading of the rules says."""

import asyncio
from fnmatch import fnmatchcase

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.dialect_clients import DIALECT_CLIENTS, Call
from tests.harness.seeds import examples
from tests.properties.callers.oracle import words
from tests.properties.callers.town import KEYS, Rule, Town, arguments_of
from toolhall.model.call_records import AuditRecord

RULES = st.builds(
    Rule,
    st.sampled_from(["*", "ada", "bob", "crew", "old", "[ae]*"]),
    st.sampled_from(["*", "Ladder.*", "Ladder.step5", "Ladder.step[4-7]@1.*", "Other.*", "Ladder.step9@1.0.0"]),
    st.booleans(),
    st.sampled_from([None, None, "red", "blue"]),
)
COLOURS = st.sampled_from([None, "red", "blue"])


def expected(rules: list[Rule], call: Call, level: int) -> str:
    """How a call must end, by the rules as they are written down."""
    caller, colour = str(call.caller), (call.arguments or {}).get("colour", "red")
    about = [rule for rule in rules if fnmatchcase(caller, rule.callers) and _means(rule.tools, f"Ladder.step{level}")]
    if any(rule.forbids and rule.colour is None for rule in about):
        return "NotFound"
    if level >= 4 and not any(not rule.forbids for rule in about):
        return "NotFound"
    if (level >= 2 and caller == "crew") or (level >= 3 and caller == "old"):
        return "Denied"
    if level >= 1 and (caller == "eve" or (caller == "ops" and level >= 4)):
        return "NotFound"  # a key without the scope, which it cannot get
    holding = [rule for rule in about if rule.colour in (None, colour)]
    if any(rule.forbids for rule in holding) or (level >= 4 and not holding):
        return "Denied"
    return "NeedsVerification" if level >= 8 else "ok"


def _means(glob: str, tool: str) -> bool:
    return fnmatchcase(f"{tool}@1.0.0", glob) or fnmatchcase(tool, glob)


async def decided(rules: list[Rule], call: Call, level: int) -> str:
    """The same call in every dialect, in one hall."""
    town = Town()
    with town.hall:
        made = await town.open(rules)
        endings: dict[str, tuple[str, list[AuditRecord]]] = {}
        for make in DIALECT_CLIENTS:
            way = make()
            said = way.read(await way.send(town, call), "object")
            records, entered = town.take()
            outcomes = [each for each in records if each.phase is None]
            assert len(outcomes) == 1, (way.dialect, records)
            kind = outcomes[0].outcome
            assert said.word in words(kind, way.dialect), (kind, way.dialect, said)
            assert len(entered) == (1 if kind == "ok" else 0)
            intents = [each for each in records if each.phase == "intent"]
            assert len(intents) == (1 if entered and level >= 4 else 0)
            if outcomes[0].verdict == "allow" and level >= 4:
                assert outcomes[0].grant in made
            endings[way.dialect] = kind, [_bare(each) for each in records]
    assert len({kind for kind, _ in endings.values()}) == 1, endings
    first = next(iter(endings.values()))
    assert all(each == first for each in endings.values()), endings
    return first[0]


def _bare(record: AuditRecord) -> AuditRecord:
    tool = record.tool if "@" in record.tool else ""  # what is not found is recorded as it was asked for
    times = {"time": 0.0, "duration_us": 0, "stages_us": None}  # the stage times of some calls are taken
    return msgspec.structs.replace(record, call="", dialect="", tool=tool, bytes_in=0, **times)


@settings(max_examples=examples(60))
@given(st.lists(RULES, max_size=5), st.sampled_from(list(KEYS)), st.integers(0, 10), COLOURS)
def test_access_decision_of_random_rules_is_the_same_in_every_dialect(
    rules: list[Rule], caller: str, level: int, colour: str | None
) -> None:
    call = Call(caller, "Ladder", f"step{level}", arguments_of(colour))
    assert asyncio.run(decided(rules, call, level)) == expected(rules, call, level)


@pytest.mark.threat("B18")
@pytest.mark.parametrize(
    ("caller", "level", "rules", "kind"),
    [
        ("ada", 1, [], "ok"),
        ("ada", 4, [], "NotFound"),
        ("ada", 5, [Rule("ada", "Ladder.*")], "ok"),
        ("ada", 5, [Rule("*", "*"), Rule("ada", "Ladder.step5", forbids=True)], "NotFound"),
        ("ada", 5, [Rule("ada", "Ladder.*", colour="blue")], "Denied"),
        ("bob", 7, [Rule("bob", "Ladder.*")], "ok"),
        ("crew", 2, [Rule("*", "*")], "Denied"),
        ("old", 3, [Rule("*", "*")], "Denied"),
        ("eve", 5, [Rule("*", "*")], "NotFound"),
        ("ada", 8, [Rule("ada", "*")], "NeedsVerification"),
        ("ada", 9, [Rule("ada", "*")], "NeedsVerification"),
        ("ada", 10, [Rule("ada", "*")], "NeedsVerification"),
    ],
)
def test_B18_access_decision_is_the_same_in_every_dialect(
    caller: str, level: int, rules: list[Rule], kind: str
) -> None:
    """The same caller, tool and arguments come to the same end and an equal record in every dialect and revision."""
    call = Call(caller, "Ladder", f"step{level}", {})
    assert asyncio.run(decided(rules, call, level)) == kind == expected(rules, call, level)
