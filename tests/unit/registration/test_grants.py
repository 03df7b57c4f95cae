"""Adding and removing grants: what is wanted is checked, and a change counts at once."""

from typing import Any

import msgspec
import pytest

from toolhall.model.errors import Denied, Malformed, NotFound
from toolhall.registration import access as module
from toolhall.registration.access import Grants, NewCondition, NewGrant, grant_warnings
from toolhall.stores.access import Condition, Grant, GrantEffect
from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.common import WriteLock


class GrantsHarness:
    """Grants of a hall, and what those were told who decide by them."""

    def __init__(self, stores: Stores | None = None) -> None:
        self.stores = stores or in_memory()
        self.write_lock = WriteLock()
        self.told: list[tuple[Grant, ...]] = []
        self.grants = Grants(self.told.append, self.write_lock, lambda: 5.0)

    async def open(self) -> "GrantsHarness":
        await self.grants.open(self.stores)
        return self


async def test_grants_change_notifies_listeners_immediately_and_survives_a_restart() -> None:
    harness = await GrantsHarness().open()
    one = await harness.grants.add(NewGrant("ci", "Kit.*"), "ada")
    other = await harness.grants.add(NewGrant("*", "Kit.put", "forbid"), "ada")
    assert harness.told == [(), (one,), (one, other)]
    assert (await GrantsHarness(harness.stores).open()).told == [tuple(sorted((one, other), key=lambda each: each.id))]
    assert await harness.grants.remove(one.id) == one
    assert harness.told[-1] == harness.grants.all == (other,)
    with pytest.raises(NotFound, match="toolhall grant list"):
        await harness.grants.remove(one.id)


async def test_grants_add_stores_equals_and_one_of_conditions_as_lists_of_values() -> None:
    wanted = msgspec.convert(
        [{"path": "/a", "equals": None}, {"path": "/b/c~1", "oneOf": [1, "x"]}], list[NewCondition]
    )
    grant = await (await GrantsHarness().open()).grants.add(NewGrant("ci", "*", conditions=wanted), "ada")
    assert grant.conditions == (Condition("/a", (None,)), Condition("/b/c~1", (1, "x")))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"callers": ""}, "callers are 1 to 256"),
        ({"callers": "a b"}, "callers are 1 to 256"),
        ({"callers": "local"}, "the person at this machine"),
        ({"callers": "local", "effect": "forbid"}, "can neither add to that nor forbid it"),
        ({"tools": "x" * 257}, "tools are 1 to 256"),
        ({"tools": "Kit.l["}, r"unbalanced '\['"),
        ({"tools": "K\u0456t.*"}, "tools are 1 to 256"),
        ({"conditions": [{"path": "a", "equals": 1}]}, "is no place among the arguments"),
        ({"conditions": [{"path": "", "equals": 1}]}, "is no place among the arguments"),
        ({"conditions": [{"path": "/~2", "equals": 1}]}, "is no place among the arguments"),
        ({"conditions": [{"path": "/a"}]}, "either equals or oneOf"),
        ({"conditions": [{"path": "/a", "equals": 1, "oneOf": [1]}]}, "either equals or oneOf"),
        ({"conditions": [{"path": "/a", "oneOf": []}]}, "1 to 64 values"),
        ({"conditions": [{"path": "/a", "oneOf": [1] * 65}]}, "1 to 64 values"),
        ({"conditions": [{"path": "/" + "a" * 256, "equals": 1}]}, "is no place among the arguments"),
        ({"conditions": [{"path": "/a" * 33, "equals": 1}]}, "is no place among the arguments"),
        ({"conditions": [{"path": "/a", "equals": 1}] * 33}, "32 conditions at most"),
        ({"conditions": [{"path": "/a", "equals": "x" * 20_000}]}, "16384 bytes at most"),
        ({"conditions": [{"path": "/a", "equals": "\ud800"}]}, "no Unicode"),
        ({"conditions": [{"path": "/a", "equals": [10**16]}]}, "over 15 digits"),
        ({"conditions": [{"path": "/a", "oneOf": [1, {"a": "\x00"}]}]}, "U\\+0000"),
        ({"conditions": [{"path": "/a", "equals": {"n" * 257: 1}}]}, "a long name"),
    ],
)
async def test_grants_add_with_invalid_members_raises_malformed_naming_the_valid_ones(
    wrong: dict[str, Any], said: str
) -> None:
    harness = await GrantsHarness().open()
    with pytest.raises(Malformed, match=said):
        await harness.grants.add(msgspec.convert({"callers": "ci", "tools": "*"} | wrong, NewGrant), "ada")
    assert harness.grants.all == ()


async def test_grants_add_above_max_grants_raises_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GRANTS", 1)
    harness = await GrantsHarness().open()
    await harness.grants.add(NewGrant("ci", "*"), "ada")
    with pytest.raises(Malformed, match="1 grants are kept at most"):
        await harness.grants.add(NewGrant("ci", "*"), "ada")


async def test_grants_add_in_read_only_mode_is_denied_and_stores_nothing() -> None:
    harness = await GrantsHarness().open()
    harness.write_lock.read_only_reason = "several processes serve this hall"
    with pytest.raises(Denied, match="several processes"):
        await harness.grants.add(NewGrant("ci", "*"), "ada")
    assert harness.grants.all == await harness.stores.grants.all() == ()


def grant_of(
    callers: str, tools: str, *, effect: GrantEffect = "permit", conditional: bool = False, name: str = "g_1"
) -> Grant:
    conditions = (Condition("/repo", ("main",)),) if conditional else ()
    return Grant(id=name, effect=effect, callers=callers, tools=tools, conditions=conditions, created_at=0.0, by="test")


@pytest.mark.parametrize(
    ("grant", "words"),
    [
        (grant_of("ci", "Calendar.*"), []),
        (grant_of("ci-*", "Calendar.create@1.0.0"), []),
        (grant_of("corp:bob", "*"), []),  # a token's subject, whom nobody knows in advance
        (grant_of("bob", "Calendar.*"), ["no key belongs to a caller 'bob'"]),
        (grant_of("ci", "Calender.*"), ["no tool that is known here matches 'Calender.*'"]),
        (grant_of("bob", "Mail.*"), ["no key", "no tool"]),
    ],
)
def test_grant_warnings_name_unknown_callers_and_tools(grant: Grant, words: list[str]) -> None:
    said = grant_warnings(grant, (), ["ci", "ci-nightly"], ["Calendar.create@1.0.0"])
    assert [word in each for word, each in zip(words, said, strict=True)] == [True] * len(words)


def test_grant_warnings_without_registered_tools_do_not_mention_tools() -> None:
    assert grant_warnings(grant_of("ci", "Mail.*"), (), ["ci"], []) == []


@pytest.mark.parametrize(
    ("new", "old", "warned"),
    [
        (
            grant_of("ci", "Kit.a", conditional=True),
            grant_of("*", "Kit.*", name="g_2"),
            "its conditions change nothing: g_2",
        ),
        (grant_of("*", "Kit.*"), grant_of("ci", "Kit.a", conditional=True, name="g_2"), "the conditions of g_2 change"),
        (grant_of("ci", "Kit.a", conditional=True), grant_of("ci", "Kit.b", name="g_2"), None),
        (grant_of("ci", "Kit.a", conditional=True), grant_of("bob", "Kit.a", name="g_2"), None),
        (grant_of("ci", "Kit.a", conditional=True), grant_of("ci", "Kit.a", effect="forbid", name="g_2"), None),
        (grant_of("ci", "Kit.a"), grant_of("ci", "Kit.*", name="g_2"), None),
    ],
)
def test_grant_warnings_name_conditions_that_another_grant_makes_ineffective(
    new: Grant, old: Grant, warned: str | None
) -> None:
    said = grant_warnings(new, (old, new), ["ci"], ["Kit.a@1.0.0"])
    assert said == [] if warned is None else warned in said[0]
