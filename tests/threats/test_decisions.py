# ruff: noqa: N802 - tests carry the names of their rows
"""What a decision looks at, and what the audit knows of it before and after."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness.asgi_client import post_json
from tests.harness.cli import CliRunner
from tests.harness.dialect_clients import DIALECT_CLIENTS, Call
from tests.properties.callers.town import Rule, Town
from toolhall import Config, Toolhall, Toolkit, tool
from toolhall.registration.access import NewCondition, NewGrant, NewKey
from toolhall.stores.audit.journal import MemoryJournal

SERVED: dict[str, Any] = {"profile": "server", "public_url": "http://localhost:8000"}
CEDAR = """
permit(principal, action, resource);
forbid(principal, action, resource) when { context.arguments has account && context.arguments.account == 5 };
forbid(principal, action, resource)
when {
  context.arguments has options && context.arguments.options has mode && context.arguments.options.mode == "delete"
};
"""


class Options(msgspec.Struct):
    """How to tidy up, unless told otherwise."""

    mode: str = "delete"


class Bank(Toolkit, name="Bank", version="1.0.0"):
    """Tools that some may call with some arguments."""

    @tool(level=5, effect="writes")
    async def tidy(self, options: Options) -> str:
        """Tidy up."""
        return options.mode

    @tool(level=5, effect="writes")
    async def maybe(self, options: Options | None = None) -> str:
        """Perhaps tidy up."""
        return options.mode if options else ""

    @tool(level=5, effect="writes")
    async def book(self, account: int) -> int:
        """Book."""
        return account


async def asked(hall: Toolhall, name: str, body: str) -> int:
    """The status of one call by a new key."""
    _, key = await hall.access.keys.create(NewKey(name="ci"), "test")
    return (await post_json(hall.http, f"/tools/Bank/{name}", body.encode(), {"authorization": f"Bearer {key}"})).status


@pytest.fixture(params=["grants", "cedar"])
async def bank(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Toolhall]:
    """A hall where everything may be called, but not with mode `delete` or account 5."""
    path = tmp_path / "rules.cedar"
    path.write_text(CEDAR, "utf-8")
    cedar = str(path) if request.param == "cedar" else None
    with Toolhall(Bank(), config=Config(**SERVED, cedar=cedar)) as hall:
        await hall.open()
        if cedar is None:
            await hall.access.grants.add(NewGrant("*", "Bank.*"), "test")
            for condition in (NewCondition("/options/mode", "delete"), NewCondition("/account", 5)):
                await hall.access.grants.add(NewGrant("*", "Bank.*", "forbid", (condition,)), "test")
        yield hall


@pytest.mark.threat("B10")
@pytest.mark.parametrize("name", ["tidy", "maybe"])
async def test_B10_condition_applies_to_defaults_inside_nested_arguments(bank: Toolhall, name: str) -> None:
    """An argument that is forbidden is so as a default as well, also inside another argument."""
    bodies = ('{"options": {"mode": "keep"}}', '{"options": {"mode": "delete"}}', '{"options": {}}')
    assert [await asked(bank, name, body) for body in bodies] == [200, 403, 403]


@pytest.mark.threat("B10")
async def test_B10_condition_on_a_number_matches_any_json_spelling_of_it(bank: Toolhall) -> None:
    """A value that is forbidden is so in each of its spellings."""
    bodies = [f'{{"account": {number}}}' for number in ("6", "6.0", "5", "5.0", "5e0", "0.5e1")]
    assert [await asked(bank, "book", body) for body in bodies] == [200, 200, 403, 403, 403, 403]


@pytest.mark.threat("B11")
@pytest.mark.parametrize("way", DIALECT_CLIENTS, ids=lambda way: way().dialect)
async def test_B11_audit_record_of_a_hidden_tool_names_what_the_caller_cannot_tell_from_unknown(way: Any) -> None:
    """A call that a grant forbids, or none permits, is recorded with the tool, its level and what hides it."""
    town = Town()
    with town.hall:
        forbids = next(iter(await town.open([Rule("bob", "Ladder.step5", forbids=True)])))
        names = ("step5", "step9", "stepx")
        for name in names:
            await way().send(town, Call("bob", "Ladder", name, {}))
        forbidden, ungranted, unknown = town.take()[0]
    assert [each.outcome for each in (forbidden, ungranted, unknown)] == ["NotFound"] * 3
    assert (forbidden.tool, forbidden.level, forbidden.grant) == ("Ladder.step5@1.0.0", 5, forbids)
    assert (ungranted.tool, ungranted.level, ungranted.grant) == ("Ladder.step9@1.0.0", 9, None)
    for each in (forbidden, ungranted):
        assert each.verdict == "deny"
        assert each.reason
        assert each.definition_sha256
    assert (unknown.verdict, unknown.level, unknown.definition_sha256) == (None, None, None)


async def change(hall: Toolhall, key: str, what: str, body: dict[str, Any]) -> int:
    headers = {"authorization": f"Bearer {key}"}
    return (await post_json(hall.http, f"/api/{what}", json.dumps(body).encode(), headers)).status


@pytest.mark.threat("J3")
async def test_J3_management_change_has_an_intent_record_before_it_is_made() -> None:
    """Keys and grants are made only once the audit knows of it; a stranger's wish is recorded, and no intent."""
    with Toolhall(config=Config(**SERVED)) as hall:
        await hall.open()
        _, admin = await hall.access.keys.create(NewKey(name="ops", scopes=("admin",)), "test")
        _, stranger = await hall.access.keys.create(NewKey(name="eve"), "test")
        assert isinstance(hall.journal, MemoryJournal)
        wanted = {"callers": "ci", "tools": "*"}
        assert (await change(hall, admin, "grants", wanted), await change(hall, stranger, "grants", wanted)) == (
            201,
            403,
        )
        records = [(each.caller, each.phase, each.outcome) for each in hall.journal.records]
        intent, done = list(hall.journal.records)[:2]
    assert records == [("ops", "intent", "intent"), ("ops", None, "ok"), ("eve", None, "Denied")]
    assert (intent.call, intent.tool, intent.arguments_sha256) == (done.call, done.tool, done.arguments_sha256)


@pytest.mark.threat("J3")
async def test_J3_management_change_with_an_unwritable_audit_is_refused(tmp_path: Path) -> None:
    """Where no record can be written, no key and no grant is made, not by a caller who may."""
    (tmp_path / "audit").write_text("in the way", "utf-8")
    with Toolhall(config=Config(**SERVED, data=str(tmp_path))) as hall:
        await hall.open()
        _, admin = await hall.access.keys.create(NewKey(name="ops", scopes=("admin",)), "test")
        assert await change(hall, admin, "keys", {"name": "evil", "scopes": ["admin"]}) == 503
        assert await change(hall, admin, "grants", {"callers": "*", "tools": "*"}) == 503
        assert [key.name for key in hall.access.keys.all] == ["ops"]
        assert hall.access.grants.all == ()


@pytest.mark.threat("J3")
def test_J3_cli_change_of_the_data_folder_with_an_unwritable_audit_is_refused(tmp_path: Path) -> None:
    """The person at this machine cannot do it either, and hears why."""
    cli = CliRunner(tmp_path)
    cli.data.mkdir()
    (cli.data / "audit").write_text("in the way", "utf-8")
    refused = cli.run("grant", "add", "ci", "*")
    assert refused.code != 0
    assert "the audit cannot be written" in refused.err
    assert cli.run("grant", "list", "--json").json() == []
