"""What `/api/check` and `/api/access` say is what the real call then does, and they leave no trace."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import count
from tests.properties.callers.town import KEYS, Rule, Town
from tests.unit.http.api.management_client import manage
from toolhall import Config, Toolhall
from toolhall.model.call_records import AuditRecord
from toolhall.model.json import Json, JsonObject
from toolhall.pipeline.rate_buckets import Rate
from toolhall.registration.access import NewCondition, NewGrant, NewKey
from toolhall.stores.approvals import MemoryApprovalStore

RULES = st.builds(
    Rule,
    st.sampled_from(["*", "*", "*", "ada", "bob", "crew", "old", "anonymous", "[ae]*"]),
    st.sampled_from(["*", "*", "Ladder.*", "Ladder.step[0-5]", "Ladder.step[4-7]@1.*", "Ladder.step9@1.0.0"]),
    st.sampled_from([False, False, False, False, True]),
    st.sampled_from([None, "red", "blue"]),
)
CALLERS = st.sampled_from([*KEYS, *["ada", "bob"] * 4, "anonymous", "nobody", "corp:mia"])
TOOLS = st.sampled_from(
    [*(f"Ladder.step{level}" for level in range(11)), "Ladder.step4@1.0.0", "Ladder.none", "Ladder_step5"]
)
ARGUMENTS = st.sampled_from(
    [
        {},
        {"colour": "red"},
        {"colour": "blue"},
        {"colour": "blue"},
        {"colour": 3},
        {"other": "red"},
        {"colour": "red", "other": 1},
    ]
)
# By what the check says, how the call must end.
ENDINGS = {"runs": {"ok"}, "asks": {"NeedsVerification"}}
REFUSALS = {"NotFound", "Denied", "Unauthenticated", "BadArguments", "Limited"}


def calls(town: Town) -> list[AuditRecord]:
    return [each for each in town.take()[0] if each.phase is None and not each.dialect.endswith("/management")]


async def manager(town: Town) -> dict[str, str]:
    """The headers of a caller that may manage the hall."""
    _, secret = await town.hall.access.keys.create(NewKey("manager", scopes=("observe",)), "test")
    return {"authorization": f"Bearer {secret}"}


def traces(hall: Toolhall) -> bytes:
    """Everything that a check must not change, as bytes."""
    limit, store = hall.dispatcher.stages.limit, hall.approval_components.approvals.store
    assert isinstance(store, MemoryApprovalStore)
    buckets = [getattr(limit, name) for name in ("_callers", "_tools", "_pairs")]
    held = [bucket.full_at for bucket in buckets if bucket is not None]
    return msgspec.json.encode(
        [held, vars(limit)["_running"], len(vars(limit)["_charges"]), list(vars(store)["_approvals"])]
    )


async def answer(hall: Toolhall, headers: Mapping[str, str], **body: Json) -> Any:
    reply = await manage(hall, "POST", "/api/check", body, dict(headers))
    assert reply.status == 200, reply
    return reply.body


async def compare(rules: list[Rule], caller: str, tool: str, arguments: JsonObject, repeats: int) -> None:
    """Ask, then call; the limits hold three calls, so that some checks meet an empty bucket."""
    config = Config(
        profile="server",
        public_url="http://localhost:8000",
        allow_anonymous=True,
        pair_limit=Rate(per_second=0.001, burst=3),
    )
    town = Town(config)
    with town.hall:
        await town.open(rules)
        headers = await manager(town)
        for _ in range(repeats):
            before = traces(town.hall)
            told = await answer(town.hall, headers, caller=caller, tool=tool, arguments=arguments)
            listed = (await manage(town.hall, "GET", f"/api/access?callers={caller}", None, dict(headers))).body[
                "pairs"
            ]
            assert traces(town.hall) == before
            assert (town.ladder.entered, calls(town)) == ([], [])
            agree_with_matrix(told, listed, tool)
            if caller in KEYS or caller == "anonymous":
                await call_and_compare(town, told, caller, tool, arguments)


def agree_with_matrix(told: Any, listed: list[Any], tool: str) -> None:
    """A pair says what the check says, as far as that depends neither on arguments nor on limits."""
    pair = next(
        (each for each in listed if each["tool"].partition("@")[0] == tool.replace("_", ".").partition("@")[0]), None
    )
    states = {each["stage"]: each["state"] for each in told["stages"]}
    if pair is None or "stop" in (states["limit"], states["validate"]):
        return
    event(pair["verdict"])
    possible = {"yes": {"runs"}, "asks": {"asks"}, "no": {"refused"}, "if": {"runs", "asks", "refused", "unknown"}}
    assert told["verdict"] in possible[pair["verdict"]], (told, pair)


async def call_and_compare(town: Town, told: Any, caller: str, tool: str, arguments: JsonObject) -> None:
    name, _, version = tool.removeprefix("Ladder")[1:].partition("@")
    path = f"/tools/Ladder/{name}"
    known = None if caller == "anonymous" else caller
    await town.post(path + (f"?version={version}" if version else ""), msgspec.json.encode(arguments), known, {})
    (record,) = calls(town)
    states = [each["stage"] for each in told["stages"] if each["state"] == "stop"]
    event(f"{told['verdict']} {record.outcome}")
    if record.stage == "limit" and caller == "anonymous":
        return  # counted by address, which the check does not know, and says so
    if told["verdict"] == "refused":
        assert record.outcome in REFUSALS, (told, record)
        assert record.stage == states[0], (told, record)
    else:
        assert record.outcome in ENDINGS[told["verdict"]], (told, record)


@settings(max_examples=count(100, 1_000))
@given(st.lists(RULES, min_size=1, max_size=4), CALLERS, TOOLS, ARGUMENTS, st.sampled_from([1, 1, 4]))
def test_check_says_what_the_call_does(
    rules: list[Rule], caller: str, tool: str, arguments: JsonObject, repeats: int
) -> None:
    asyncio.run(compare(rules, caller, tool, arguments, repeats))


@settings(max_examples=count(25, 250))
@given(st.lists(RULES, max_size=3), RULES, CALLERS, TOOLS, ARGUMENTS)
def test_check_with_a_draft_says_what_the_check_says_once_it_is_added(
    rules: list[Rule], draft: Rule, caller: str, tool: str, arguments: JsonObject
) -> None:
    async def both() -> None:
        town = Town()
        with town.hall:
            await town.open(rules)
            headers = await manager(town)
            wanted: JsonObject = {"callers": draft.callers, "tools": draft.tools}
            wanted["effect"] = "forbid" if draft.forbids else "permit"
            wanted["conditions"] = [] if draft.colour is None else [{"path": "/colour", "equals": draft.colour}]
            asked: JsonObject = {"caller": caller, "tool": tool, "arguments": arguments}
            drafted = await answer(town.hall, headers, **asked, draft=wanted)
            assert len(town.hall.access.grants.all) == len(rules)
            assert (await manage(town.hall, "POST", "/api/grants", wanted)).status == 401
            conditions = () if draft.colour is None else (NewCondition("/colour", equals=draft.colour),)
            effect: Any = wanted["effect"]
            await town.hall.access.grants.add(NewGrant(draft.callers, draft.tools, effect, conditions), "test")
            saved = await answer(town.hall, headers, **asked)
            assert drafted["verdict"] == saved["verdict"]
            assert [each["state"] for each in drafted["stages"]] == [each["state"] for each in saved["stages"]]

    asyncio.run(both())
