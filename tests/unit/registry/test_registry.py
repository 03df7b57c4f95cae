"""Adding and removing tools, and who hears of it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.patience import patience
from tests.unit.builders import entry_named, tool_named
from toolhall.model.names import ToolId
from toolhall.registry.registry import Conflict, Registry
from toolhall.registry.snapshot import Entry, compile_entry


def names(registry: Registry) -> list[str]:
    return [entry.tool.name for entry in registry.snapshot.entries]


def published_as(name: str, tool_id: ToolId) -> Entry:
    return compile_entry(tool_named(name, id=tool_id), entry_named().runner)


def test_registry_lists_tools_in_the_order_of_adding() -> None:
    registry = Registry()
    registry.add([entry_named("b"), entry_named("a")])
    registry.add([entry_named("c")])
    assert names(registry) == ["b", "a", "c"]


def test_snapshot_finds_a_tool_by_name_id_and_version_range() -> None:
    registry = Registry()
    entry = entry_named("pick")
    registry.add([entry])
    for name in ("pick", "Kit.pick@1.0.0", "Kit.pick", "Kit.pick@1", "Kit.pick@^1.0"):
        assert registry.snapshot.find(name) is entry
    for name in ("Pick", "kit.pick", "Kit.pick@2", "Kit.pick@", "Kit.", "."):
        assert registry.snapshot.find(name) is None


def test_registry_change_creates_a_new_snapshot_and_keeps_the_old_one() -> None:
    registry = Registry()
    registry.add([entry_named("a")])
    before = registry.snapshot
    registry.add([entry_named("b")])
    registry.remove("a")
    assert [entry.tool.name for entry in before.entries] == ["a"]
    assert before.find("a") is not None
    assert before.find("b") is None
    assert names(registry) == ["b"]


def test_registry_add_of_a_registered_tool_raises_conflict() -> None:
    registry = Registry()
    registry.add([entry_named("pick")])
    with pytest.raises(Conflict, match=r"Kit\.pick@1\.0\.0 is registered already; remove it first"):
        registry.add([entry_named("pick")])


@pytest.mark.parametrize("twin", ["Pick", "PICK"])
def test_registry_add_of_a_name_in_another_case_raises_conflict(twin: str) -> None:
    registry = Registry()
    registry.add([entry_named("pick")])
    told = rf"Kit\.{twin}@1\.0\.0 would be published as '{twin}', .* tell apart from Kit\.pick@1\.0\.0; rename one"
    with pytest.raises(Conflict, match=told):
        registry.add([entry_named(twin)])
    assert names(registry) == ["pick"]


def test_registry_add_of_a_registered_id_under_another_name_raises_conflict() -> None:
    registry = Registry()
    registry.add([published_as("get", ToolId("Weather", "get", "0.1.0"))])
    with pytest.raises(Conflict, match=r"Weather\.get@0\.1\.0 is registered already"):
        registry.add([published_as("Weather_get", ToolId("Weather", "get", "0.1.0"))])
    registry.add([published_as("Weather_get", ToolId("Weather", "get", "0.2.0"))])


def version_of(version: str) -> Entry:
    return published_as("Weather_get", ToolId("Weather", "get", version))


def test_registry_name_of_several_versions_means_the_newest_release() -> None:
    registry = Registry()
    old, new, next_one = version_of("1.9.0"), version_of("1.10.0"), version_of("2.0.0-rc.1")
    registry.add([old, new, next_one])
    snapshot = registry.snapshot
    assert snapshot.find("Weather_get") is snapshot.find("Weather.get") is snapshot.find("Weather.get@^1") is new
    assert snapshot.find("Weather.get@~1.9") is snapshot.find("Weather.get@1.9.0") is old
    assert snapshot.find("Weather.get@2") is None
    assert snapshot.find("Weather.get@2.0.0-rc.1") is next_one
    assert snapshot.listed == (new,)
    assert [tool.id.version for tool in snapshot.page(None).tools] == ["1.10.0"]
    registry.remove("Weather.get@1.10.0")
    assert registry.snapshot.find("Weather_get") is old


def test_registry_older_version_does_not_notify_listeners() -> None:
    registry, heard = Registry(), list[int]()
    registry.add([version_of("1.1.0")])
    registry.subscribe(lambda: heard.append(1))
    registry.add([version_of("1.0.0")])
    assert heard == []
    registry.add([version_of("1.2.0")])
    registry.remove("Weather.get@1.0.0")
    assert heard == [1]


def test_registry_add_of_an_id_that_collides_in_a_dialect_raises_conflict() -> None:
    registry = Registry()
    registry.add([published_as("pay-roll_run", ToolId("pay-roll", "run", "1.0.0"))])
    with pytest.raises(
        Conflict, match=r"pay_roll\.run@1\.0\.0 would be published .* tell apart from pay-roll\.run@1\.0\.0"
    ):
        registry.add([published_as("pay_roll_run", ToolId("pay_roll", "run", "1.0.0"))])


def test_registry_add_with_a_conflict_adds_nothing() -> None:
    registry = Registry()
    with pytest.raises(Conflict):
        registry.add([entry_named("a"), entry_named("b"), entry_named("A")])
    assert names(registry) == []


@pytest.mark.parametrize("name", ["", "a b", "a\n", "x" * 129])
def test_registry_add_of_a_name_invalid_in_mcp_raises_conflict(name: str) -> None:
    with pytest.raises(Conflict, match="cannot be published"):
        Registry().add([entry_named(name)])


def test_registry_name_of_a_removed_tool_can_be_reused() -> None:
    registry = Registry()
    registry.add([entry_named("pick")])
    assert registry.remove("pick")
    registry.add([entry_named("Pick")])
    assert names(registry) == ["Pick"]


def test_registry_remove_by_id_returns_whether_a_tool_was_removed() -> None:
    registry = Registry()
    registry.add([entry_named("pick")])
    assert registry.remove("Kit.pick@1.0.0")
    assert not registry.remove("pick")


async def test_registry_listener_is_notified_of_real_changes_only() -> None:
    registry, heard = Registry(), list[list[str]]()
    registry.subscribe(lambda: heard.append(names(registry)))
    registry.add([entry_named("a")])
    registry.add([])
    registry.remove("other")
    with pytest.raises(Conflict):
        registry.add([entry_named("b"), entry_named("a")])
    registry.remove("a")
    assert heard == [["a"], []]


async def test_registry_add_of_several_tools_notifies_once() -> None:
    registry, heard = Registry(), list[int]()
    registry.subscribe(lambda: heard.append(1))
    registry.add([entry_named("a"), entry_named("b")])
    assert heard == [1]


async def test_registry_listener_can_unsubscribe_during_its_notification() -> None:
    registry, heard = Registry(), list[str]()

    def once() -> None:
        heard.append("once")
        stop()

    stop = registry.subscribe(once)
    registry.subscribe(lambda: heard.append("always"))
    registry.add([entry_named("a")])
    registry.add([entry_named("b")])
    assert sorted(heard) == ["always", "always", "once"]
    stop()


async def test_registry_change_in_a_thread_notifies_in_the_loop_of_the_listener() -> None:
    registry, heard = Registry(), asyncio.Queue[threading.Thread]()
    registry.subscribe(lambda: heard.put_nowait(threading.current_thread()))
    await asyncio.to_thread(registry.add, [entry_named("a")])
    assert await asyncio.wait_for(heard.get(), patience()) is threading.current_thread()


def test_registry_listener_without_event_loop_is_called_directly() -> None:
    registry, heard = Registry(), list[list[str]]()
    registry.subscribe(lambda: heard.append(names(registry)))
    registry.add([entry_named("a")])
    assert heard == [["a"]]


def test_registry_listener_of_a_closed_loop_is_not_called() -> None:
    registry, heard = Registry(), list[str]()

    async def subscribe() -> None:
        registry.subscribe(lambda: heard.append("heard"))

    asyncio.run(subscribe())
    registry.add([entry_named("a")])
    assert heard == []


def test_registry_concurrent_adds_from_threads_are_all_kept() -> None:
    registry = Registry()
    entries = [entry_named(f"tool_{number}") for number in range(60)]
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(registry.add, [[entry] for entry in entries]))
    assert sorted(names(registry)) == sorted(entry.tool.name for entry in entries)


def test_registry_listener_may_change_the_registry() -> None:
    registry = Registry()

    def add_another() -> None:
        if len(names(registry)) < 3:
            registry.add([entry_named(f"more_{len(names(registry))}")])

    registry.subscribe(add_another)
    registry.add([entry_named("a")])
    assert names(registry) == ["a", "more_1", "more_2"]
