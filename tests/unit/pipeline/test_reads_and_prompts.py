"""Grants, levels, limits, pins, recordings and the audit hold for reads and prompts as for calls of tools."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from tests.unit.builders import tool_named
from toolhall import Config, Toolhall, Toolkit, prompt, resource, tool
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import LOCAL, Caller, effective_level
from toolhall.model.content import Resource
from toolhall.model.errors import BadArguments, Denied, Limited, NotFound, ToolhallError
from toolhall.model.messages import Answer, CallTool, CompletedCall
from toolhall.model.tool import Kind, PromptInfo, ResourceInfo
from toolhall.pipeline.access_rules import GrantRules
from toolhall.pipeline.dry_run import CheckedStage, DryRun, verdict_of
from toolhall.registration.access import NewCondition, NewGrant
from toolhall.stores.audit.journal import MemoryJournal

ADA = Caller("ada", proof="key", person="ada", scopes=frozenset({"tools:*"}), expires_at=4e9)
Secret = Annotated[str, msgspec.Meta(extra_json_schema={"writeOnly": True})]


class Shop(Toolkit, name="Shop", version="1.0.0", level=4):
    """Orders and letters."""

    @tool(effect="reads")
    async def find(self, number: int) -> str:
        """Finds an order."""
        return str(number)

    @resource("shop://orders/{number}{?key}")
    async def order(self, number: int, key: Secret = "") -> str:
        """One order."""
        return f"Order {number}"

    @resource("shop://policy")
    async def policy(self) -> str:
        """Our rules."""
        return "Rules"

    @prompt
    async def letter(self, number: int, tone: str = "kind") -> str:
        """Drafts a letter."""
        return f"A {tone} letter about {number}"


class NewerShop(Toolkit, name="Shop", version="1.1.0", level=4):
    """The next version."""

    @resource("shop://policy")
    async def policy(self) -> str:
        """Our rules."""
        return "Newer rules"

    @prompt
    async def letter(self, number: int) -> str:
        """Drafts a letter."""
        return f"A newer letter about {number}"


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    with Toolhall(Shop(), config=Config(profile="server", public_url="http://localhost:8000")) as hall:
        await hall.open()
        yield hall


async def ask(hall: Toolhall, kind: Kind, name: str, caller: Caller = ADA, **arguments: Any) -> Answer:
    return await hall.dispatcher.answer(CallTool(name, arguments, "test", 42, kind=kind), caller)


async def grant(hall: Toolhall, tools: str, *conditions: NewCondition) -> None:
    await hall.access.grants.add(NewGrant(callers="ada", tools=tools, conditions=conditions), "test")


def text(answer: Answer) -> str:
    assert isinstance(answer, CompletedCall), answer
    (block,) = answer.result.content
    return str(block.content) if isinstance(block, Resource) else str(getattr(block, "text", ""))


def records(hall: Toolhall) -> list[AuditRecord]:
    assert isinstance(hall.journal, MemoryJournal)
    return list(hall.journal.records)


async def test_grant_of_a_toolkit_covers_all_kinds(hall: Toolhall) -> None:
    assert isinstance(await ask(hall, "resource", "shop://policy"), NotFound)
    assert isinstance(await ask(hall, "prompt", "Shop_letter", number="1"), NotFound)
    await grant(hall, "Shop.*")
    assert text(await ask(hall, "resource", "shop://policy")) == "Rules"
    assert text(await ask(hall, "resource", "shop://orders/7")) == "Order 7"
    assert text(await ask(hall, "prompt", "Shop_letter", number="1")) == "A kind letter about 1"


async def test_grant_with_a_condition_on_a_variable_decides_by_the_uri(hall: Toolhall) -> None:
    await grant(hall, "Shop.order", NewCondition(path="/number", equals=17))
    assert text(await ask(hall, "resource", "shop://orders/17")) == "Order 17"
    assert isinstance(await ask(hall, "resource", "shop://orders/18"), Denied)
    assert isinstance(await ask(hall, "resource", "shop://policy"), NotFound)


@pytest.mark.parametrize("levels", [{"Shop.policy": 9, "Shop.letter@1.*": 9}, {"Shop.*": 8}])
async def test_level_override_by_glob_holds_for_all_kinds(levels: dict[str, int]) -> None:
    config = Config(profile="server", public_url="http://localhost:8000", levels=levels)
    with Toolhall(Shop(), config=config) as hall:
        await hall.open()
        await grant(hall, "Shop.*")
        asked = (
            await ask(hall, "resource", "shop://policy"),
            await ask(hall, "prompt", "Shop_letter", number="1"),
        )
        assert [getattr(each, "level", 0) for each in records(hall)] == [max(levels.values())] * 2, asked


def test_definition_from_outside_that_states_no_level_has_level_4() -> None:
    info: dict[Kind, Any] = {"resource": {"resource": ResourceInfo(uri="a://b")}, "prompt": {"prompt": PromptInfo()}}
    for stated in info.values():
        assert effective_level(tool_named("a", foreign=True, effect="reads", **stated)) == 4
        assert effective_level(tool_named("a", effect="reads", **stated)) < 4


async def test_limit_counts_reads_and_prompts_like_calls() -> None:
    with Toolhall(Shop(), config=Config(calls_per_second=0.001, call_burst=2)) as hall:
        assert text(await ask(hall, "resource", "shop://policy", LOCAL)) == "Rules"
        await ask(hall, "prompt", "Shop_letter", LOCAL, number="1")
        limited = (
            await ask(hall, "resource", "shop://policy", LOCAL),
            await ask(hall, "tool", "Shop_find", LOCAL, number=1),
        )
        assert [type(each) for each in limited] == [Limited, Limited]


async def test_pin_decides_which_version_a_uri_and_a_prompt_mean() -> None:
    for pinned, expected in (((), "Newer"), (("Shop.policy@^1.0", "Shop.letter@~1.0"), "Newer"), (PINNED, "Rules")):
        with Toolhall(Shop(), NewerShop(), config=Config(pinned=pinned)) as hall:
            assert text(await ask(hall, "resource", "shop://policy", LOCAL)).startswith(expected)
            listed = hall.dispatcher.visible_snapshot(LOCAL)
            assert [tool.id.version for tool in listed.resources.pages.tools] == [
                "1.1.0" if expected == "Newer" else "1.0.0"
            ]


PINNED = ("Shop.policy@1.0.0", "Shop.letter@1.0.0")


async def test_record_globs_match_reads_and_prompts(tmp_path: Path) -> None:
    with Toolhall(Shop(), config=Config(data=str(tmp_path), record=("Shop.order*", "Shop.letter@*"))) as hall:
        await hall.open()
        await ask(hall, "resource", "shop://orders/7", LOCAL)
        await ask(hall, "resource", "shop://policy", LOCAL)
        await ask(hall, "prompt", "Shop_letter", LOCAL, number="1")

    lines = [json.loads(line) for line in (tmp_path / "recordings.jsonl").read_bytes().splitlines()]
    assert [(line["tool"], line["answer"]) for line in lines] == [
        ("Shop.order@1.0.0", {"content": ["Order 7"]}),
        ("Shop.letter@1.0.0", {"content": ["A kind letter about 1"]}),
    ]


async def test_audit_record_of_a_read_has_kind_and_uri(hall: Toolhall) -> None:
    await grant(hall, "Shop.*")
    await ask(hall, "resource", "shop://orders/7")
    intent, record = [each for each in records(hall) if each.call == records(hall)[-1].call]
    for each in (intent, record):
        assert (each.tool, each.kind, each.uri) == ("Shop.order@1.0.0", "resource", "shop://orders/7")
    assert (intent.phase, record.outcome, record.argument_names) == ("intent", "ok", None)


async def test_audit_record_of_a_prompt_has_the_names_of_its_arguments_and_their_digest(hall: Toolhall) -> None:
    await grant(hall, "Shop.*")
    await ask(hall, "prompt", "Shop_letter", number="1", tone="hunter2")
    record = records(hall)[-1]
    assert (record.kind, record.uri, record.argument_names) == ("prompt", None, ("number", "tone"))
    assert record.arguments_sha256 is not None
    assert "hunter2" not in str(record)


async def test_audit_record_of_a_call_has_none_of_these(hall: Toolhall) -> None:
    await grant(hall, "Shop.*")
    await ask(hall, "tool", "Shop_find", number=1)
    assert not {"kind", "uri", "argument_names"} & set(msgspec.to_builtins(records(hall)[-1]))


@pytest.mark.parametrize(
    ("uri", "hidden"),
    [
        ("shop://orders/7?key=hunter2", "hunter2"),
        ("shop://orders/x?key=hunter2", "hunter2"),  # refused, but its template is known
        ("shop://nothing?token=sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD", "sk-proj-abcdef"),
        (f"shop://orders/{'7' * 5000}", "7" * 2000),
        ("shop://orders/7\u202e", "\u202e"),
    ],
)
async def test_audit_uri_is_bounded_and_has_no_secrets(hall: Toolhall, uri: str, hidden: str) -> None:
    await grant(hall, "Shop.*")
    await ask(hall, "resource", uri)
    record = records(hall)[-1]
    assert record.kind == "resource"
    assert record.uri is not None
    assert len(record.uri) <= 1_024
    assert record.uri.startswith("shop://")
    assert hidden not in str(record)


def stages(checked: Sequence[CheckedStage]) -> Iterator[tuple[str, str]]:
    return ((each.stage, each.state) for each in checked if each.state != "not_reached")


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "verdict"),
    [
        ("shop://orders/17", None, None, "runs"),
        ("shop://orders/17", None, "resource", "runs"),
        ("shop://orders/18", None, None, "refused"),
        ("shop://orders/x", None, None, "refused"),
        ("shop://nothing", None, None, "refused"),
        ("shop://policy", None, None, "refused"),  # no grant
        ("Shop.order@1.0.0", {"number": 17}, None, "runs"),
        ("Shop.order", None, None, "unknown"),
        ("Shop_letter", {"number": "1"}, "prompt", "runs"),
        ("Shop.letter", {"number": 1}, None, "runs"),
        ("Shop.letter", {"number": "one"}, None, "refused"),
        ("Shop_letter", {"number": "1"}, "tool", "refused"),
        ("Shop.find", {"number": 1}, "resource", "refused"),
    ],
)
async def test_dry_run_says_what_the_read_or_prompt_would_do(
    hall: Toolhall, name: str, arguments: Any, kind: Kind | None, verdict: str
) -> None:
    await grant(hall, "Shop.order", NewCondition(path="/number", equals=17))
    await grant(hall, "Shop.letter")
    rules = hall.dispatcher.policy.rules
    assert isinstance(rules, GrantRules)
    dry_run = DryRun(hall.dispatcher.stages, hall.registry, hall.dispatcher.policy)
    checked = await dry_run.check(ADA, name, arguments, kind)
    assert verdict_of(checked) == verdict, list(stages(checked))
    before = len(records(hall))
    if name.startswith("shop:"):
        answer = await ask(hall, "resource", name)
        assert isinstance(answer, ToolhallError) == (verdict == "refused")
        assert len(records(hall)) > before


async def test_bad_value_in_a_uri_names_nothing(hall: Toolhall) -> None:
    await grant(hall, "Shop.*")
    assert isinstance(await ask(hall, "resource", "shop://orders/x"), NotFound)
    assert isinstance(await ask(hall, "prompt", "Shop_letter", number="x"), BadArguments)
