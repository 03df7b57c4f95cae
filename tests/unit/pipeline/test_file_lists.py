"""FileLists: when files are looked at, how often, and who is told what changed."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.local_mcp import ask
from tests.harness.patience import patience
from toolhall import Config, Folder, Toolhall
from toolhall.authoring.file_source import FileScan
from toolhall.authoring.folder_source import FolderSource
from toolhall.pipeline import file_lists
from toolhall.pipeline.file_lists import FileLists
from toolhall.pipeline.resource_changes import ResourceChanges

URI = "shop://manuals/"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Toolhall]:
    (tmp_path / "a.txt").write_text("a")
    with Toolhall(Folder(f"{URI}{{+path}}", tmp_path, name="manuals")) as hall:
        yield hall
        await hall.dispatcher.files.settle()


class CountedScans:
    """Counts the scans of folders; each waits for `proceed`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.running = 0
        self.most_at_once = 0
        self.proceed = threading.Event()
        self.has_begun = threading.Event()
        scan = FolderSource.scan

        def counted(source: FolderSource) -> FileScan:
            self.begun += 1
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
            self.has_begun.set()
            assert self.proceed.wait(patience())
            self.running -= 1
            return scan(source)

        monkeypatch.setattr(FolderSource, "scan", counted)


async def test_requests_share_a_scan_that_began_after_they_came(
    hall: Toolhall, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = CountedScans(monkeypatch)
    files = hall.dispatcher.files
    first = asyncio.create_task(files.refresh())
    assert await asyncio.to_thread(scans.has_begun.wait, patience())
    late = [asyncio.create_task(files.refresh()) for _ in range(50)]  # the scan that runs may have passed their files
    await asyncio.sleep(0)
    assert scans.begun == 1
    scans.proceed.set()
    await asyncio.gather(first, *late)
    assert (scans.begun, scans.most_at_once) == (2, 1)


async def test_a_caller_that_goes_does_not_end_the_scan_of_others(
    hall: Toolhall, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = CountedScans(monkeypatch)
    files = hall.dispatcher.files
    gone, stays = asyncio.create_task(files.refresh()), asyncio.create_task(files.refresh())
    assert await asyncio.to_thread(scans.has_begun.wait, patience())
    gone.cancel()
    scans.proceed.set()
    await stays
    assert gone.cancelled() or gone.done()


async def test_scans_take_at_most_a_fifth_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = 0.0, list[float]()
    scan = FolderSource.scan

    def slow(source: FolderSource) -> FileScan:
        nonlocal now
        now += 3.0
        return scan(source)

    async def sleep(seconds: float) -> None:
        nonlocal now
        pauses.append(seconds)
        now += seconds

    with Toolhall(Folder(f"{URI}{{+path}}", tmp_path, name="manuals")) as hall:
        monkeypatch.setattr(FolderSource, "scan", slow)
        files = FileLists(hall.registry, hall.dispatcher.changes, lambda: now, sleep)
        for _ in range(3):
            await files.refresh()
        assert pauses == [12.0, 12.0]
        await files.settle()


async def test_subscribers_are_told_of_files_that_changed_or_went(hall: Toolhall, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("b")
    await hall.dispatcher.files.refresh()
    told, lists = list[str](), list[int]()
    hall.dispatcher.changes.subscribe(URI.rstrip("/"), told.append)
    hall.registry.subscribe(lambda: lists.append(1))
    await hall.dispatcher.files.refresh()
    assert (told, lists) == ([], [])
    (tmp_path / "a.txt").write_text("changed")
    (tmp_path / "b.txt").unlink()
    (tmp_path / "c.txt").write_text("new")
    await hall.dispatcher.files.refresh()
    assert (sorted(told), lists) == ([f"{URI}a.txt", f"{URI}b.txt"], [1])


async def test_files_are_watched_only_while_somebody_listens(
    hall: Toolhall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lists, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(file_lists, "WATCH_IDLE_SHARE", 1)
    looked = asyncio.Event()
    loop = asyncio.get_running_loop()
    scan = FolderSource.scan

    def noted(source: FolderSource) -> FileScan:
        loop.call_soon_threadsafe(looked.set)
        return scan(source)

    monkeypatch.setattr(FolderSource, "scan", noted)
    ticks = asyncio.Queue[int]()

    def is_asked(changes: ResourceChanges) -> bool:
        ticks.put_nowait(1)
        return changes.count_of("") > 0

    monkeypatch.setattr(ResourceChanges, "has_listeners", property(is_asked))
    hall.dispatcher.files.watch()
    async with asyncio.timeout(patience()):
        for _ in range(3):
            await ticks.get()
    assert not looked.is_set()
    told = asyncio.Queue[str]()
    hall.dispatcher.changes.subscribe(f"{URI}a.txt", told.put_nowait)
    (tmp_path / "a.txt").write_text("changed")
    async with asyncio.timeout(patience()):
        assert await told.get() == f"{URI}a.txt"


async def test_a_hall_without_files_is_never_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with Toolhall() as hall:
        monkeypatch.setattr(asyncio, "to_thread", None)
        hall.dispatcher.files.watch()
        await hall.dispatcher.files.refresh()


async def test_a_failed_look_does_not_end_the_watch(
    hall: Toolhall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file_lists, "WATCH_SECONDS", 0.01)
    scan, failures = FolderSource.scan, iter([OSError("no"), None])

    def fails_once(source: FolderSource) -> FileScan:
        error = next(failures, None)
        if error is not None:
            raise error
        return scan(source)

    monkeypatch.setattr(FolderSource, "scan", fails_once)
    told = asyncio.Queue[str]()
    hall.dispatcher.changes.subscribe(f"{URI}a.txt", told.put_nowait)
    hall.dispatcher.files.watch()
    (tmp_path / "a.txt").write_text("changed")
    async with asyncio.timeout(patience()):
        assert await told.get() == f"{URI}a.txt"
    assert "files could not be looked at" in caplog.text


async def test_templates_stay_tools_when_files_change(tmp_path: Path) -> None:
    folder = Folder(f"{URI}{{+path}}", tmp_path, name="manuals")
    with Toolhall(folder, config=Config(resources_as_tools=True)) as hall:
        (tmp_path / "new.txt").write_text("new")
        found = await ask(hall, "tools/call", name="Resources_list", arguments={})
        listed = {each.get("uri") or each["uriTemplate"] for each in found["structuredContent"]["resources"]}
        assert listed == {f"{URI}{{+path}}", f"{URI}new.txt"}
        read = await ask(hall, "tools/call", name="manuals", arguments={"path": "new.txt"})
        assert read["content"][0]["resource"]["text"] == "new"
