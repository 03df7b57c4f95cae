# ruff: noqa: N802 - tests carry the names of their rows
"""A read is decided alike by every way to it: REST, MCP, and the tools that stand for resources in every dialect."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.asgi_client import NOBODY, send
from tests.harness.dialect_clients import DIALECT_CLIENTS, Call
from tests.harness.mcp_messages import encoded, modern_headers, modern_meta, request
from tests.harness.seeds import examples
from tests.properties.callers.town import KEYS, Rule, Town
from tests.properties.test_same_verdict import RULES, expected
from toolhall import Config, Toolkit, resource

COLOURS = st.sampled_from(["red", "blue"])


def _step(number: int) -> Callable[..., Any]:
    async def step(self: Any, colour: str) -> dict[str, str]:
        self.entered.append((number, colour))
        return {"colour": colour}

    step.__name__ = step.__qualname__ = f"step{number}"
    return resource(f"ladder://{number}/{{colour}}", level=number)(step)


class Shelf(Toolkit, name="Ladder", version="1.0.0"):
    """One URI template at each level, under the ids of the ladder's tools."""

    def __init__(self) -> None:
        self.entered: list[tuple[int, str]] = []

    step0, step1, step2, step3, step4 = map(_step, range(5))
    step5, step6, step7, step8, step9, step10 = map(_step, range(5, 11))


async def read_by_rest(town: Town, caller: str, uri: str) -> None:
    """`GET /resources/read`."""
    path = f"/resources/read?uri={quote(uri, safe='')}"
    await send(town.hall.http, "GET", path, headers=town.credential(caller), client=NOBODY)


async def read_by_mcp(town: Town, caller: str, uri: str) -> None:
    """`resources/read`."""
    headers = {key.lower(): value for key, value in modern_headers("resources/read", uri).items()}
    body = encoded(request("resources/read", {"uri": uri, "_meta": modern_meta()}))
    await town.post("/mcp", body, caller, {"accept": "application/json, text/event-stream", **headers})


async def endings(rules: list[Rule], caller: str, level: int, colour: str) -> dict[str, str]:
    """How the same read ends, by every way to it; each leaves one record, and runs the function if that is allowed."""
    config = Config(profile="server", public_url="http://localhost:8000", resources_as_tools=True)
    town, uri, found = Town(config, Shelf()), f"ladder://{level}/{colour}", dict[str, str]()
    with town.hall:
        await town.open(rules)

        def note(way: str) -> None:
            records, entered = town.take()
            (outcome,) = [each for each in records if each.phase is None]
            found[way] = outcome.outcome
            assert entered == ([(level, colour)] if outcome.outcome == "ok" else []), way
            intents = [each for each in records if each.phase == "intent"]
            assert len(intents) == (1 if entered and level >= 4 else 0), way

        await read_by_rest(town, caller, uri)
        note("rest")
        await read_by_mcp(town, caller, uri)
        note("mcp")
        for make in DIALECT_CLIENTS:
            way = make()
            await way.send(town, Call(caller, "Ladder", f"step{level}", {"colour": colour}))
            note(f"{way.dialect}, the template as a tool")
            await way.send(town, Call(caller, "Resources", "read", {"uri": uri}))
            note(f"{way.dialect}, the URI")
    return found


@settings(max_examples=examples(40))
@given(st.lists(RULES, max_size=5), st.sampled_from(list(KEYS)), st.integers(0, 10), COLOURS)
def test_read_under_random_rules_ends_alike_by_every_way(
    rules: list[Rule], caller: str, level: int, colour: str
) -> None:
    # A grant for the tool that reads decides whether it can be called at all, and is not about the resource.
    rules = [rule for rule in rules if not (rule.forbids and rule.tools == "*")]
    wanted = expected(rules, Call(caller, "Ladder", f"step{level}", {"colour": colour}), level)
    ended = asyncio.run(endings(rules, caller, level, colour))
    assert ended == dict.fromkeys(ended, wanted)


@pytest.mark.threat("S2")
@pytest.mark.parametrize(
    ("caller", "level", "rules", "kind"),
    [
        ("ada", 1, [], "ok"),
        ("ada", 5, [], "NotFound"),
        ("ada", 5, [Rule("ada", "Resources.*")], "NotFound"),
        ("ada", 5, [Rule("ada", "Ladder.*", colour="blue")], "Denied"),
        ("eve", 1, [], "NotFound"),
        ("crew", 2, [Rule("*", "*")], "Denied"),
        ("ada", 8, [Rule("ada", "*")], "NeedsVerification"),
    ],
)
def test_S2_resource_tools_reach_only_what_their_caller_may_read(
    caller: str, level: int, rules: list[Rule], kind: str
) -> None:
    """A tool that stands for a resource ends as the read of it does, in every dialect."""
    ended = asyncio.run(endings(rules, caller, level, "red"))
    assert ended == dict.fromkeys(ended, kind)
