# ruff: noqa: N802 - tests carry the names of their rows
"""K15 to K17: an audit that is cut off or replaced as a whole is noticed, and so is a call without an end."""

import asyncio
import logging
import os
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import CliRunner
from tests.harness.patience import patience
from tests.recorded import recorded
from tests.unit.builders import Clock
from tests.unit.stores.audit.audit_logs import DAY, record
from tests.unit.web.browser_client import Browser
from toolhall.app import Toolhall
from toolhall.app.data_dir import OpenOptions
from toolhall.authoring.declaration import tool
from toolhall.cli.commands.audit import AuditVerifyOptions, accept, read_anchor, verify
from toolhall.cli.hall_options import HallOptions
from toolhall.config import Config
from toolhall.model.caller import LOCAL
from toolhall.model.errors import Unavailable
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.registration.access import NewKey
from toolhall.stores.audit.anchors import Anchor, compare_with_anchor
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER, segments_of
from toolhall.stores.audit.journal import AuditJournal
from toolhall.stores.audit.writer import Retention
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.crypto import ROOT_KEY_FILE


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    """Runs commands on a data folder below `tmp_path`."""
    return CliRunner(tmp_path)


@tool(level=4, effect="writes")
async def sell(what: str) -> str:
    return f"sold {what}"


@tool(level=1, effect="reads")
async def look() -> str:
    return "seen"


async def call(hall: Toolhall, name: str, **arguments: Any) -> Any:
    answer = await hall.dispatcher.answer(CallTool(name, arguments, "test"), LOCAL)
    return answer.result.encoded if isinstance(answer, CompletedCall) else answer


def run_calls(data: Path, *sold: str) -> None:
    """A hall with a store sells these, and stops."""

    async def run() -> None:
        with Toolhall(sell, config=Config(data=str(data))) as hall:
            await hall.open()
            if not (data / DATABASE_FILE).exists():
                await hall.access.keys.create(NewKey("ci"), "local")
            for what in sold:
                assert await call(hall, "sell", what=what) == f'"sold {what}"'.encode()
            await hall.settle()

    asyncio.run(run())


def restore_older_audit(data: Path) -> None:
    """The whole folder of the audit as it was: logs, witness, key."""
    shutil.rmtree(data / AUDIT_FOLDER)
    shutil.copytree(data / "yesterday", data / AUDIT_FOLDER)


def truncate_log_and_checkpoints(data: Path) -> None:
    """The newest lines of the log and of the witness, up to the checkpoint before."""
    (segment,) = segments_of(data / AUDIT_FOLDER / "1")
    lines = segment.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b'"checkpoint":' in line)
    segment.write_bytes(b"".join(lines[: first + 1]))
    witness = data / AUDIT_FOLDER / "audit.checkpoints"
    witness.write_bytes(witness.read_bytes().splitlines(keepends=True)[0])


def replace_audit(data: Path) -> None:
    """Another audit, with another key, that is whole in itself."""
    shutil.rmtree(data / AUDIT_FOLDER)
    elsewhere = data / "elsewhere"
    run_calls(elsewhere, "tea", "tea", "tea")
    shutil.copytree(elsewhere / AUDIT_FOLDER, data / AUDIT_FOLDER)


def remove_audit(data: Path) -> None:
    """Nothing is left of it."""
    shutil.rmtree(data / AUDIT_FOLDER)


def remove_store(data: Path) -> None:
    """The database, with the files beside it."""
    for file in data.glob(f"{DATABASE_FILE}*"):
        file.unlink()


def restore_older_audit_and_remove_store(data: Path) -> None:
    """The audit as it was, and no database that could know better."""
    restore_older_audit(data)
    remove_store(data)


def restore_older_audit_and_remove_store_and_checkpoints(data: Path) -> None:
    """Nor a witness; the log itself says that there was a database."""
    restore_older_audit_and_remove_store(data)
    (data / AUDIT_FOLDER / "audit.checkpoints").unlink()


ATTACKS = [
    pytest.param(truncate_log_and_checkpoints, "rollback", id="K15 cut with its witness"),
    pytest.param(restore_older_audit, "rollback", id="K16 an older folder"),
    pytest.param(replace_audit, "bad signature", id="K16 another folder"),
    pytest.param(remove_audit, "missing", id="K16 no folder"),
    pytest.param(
        restore_older_audit_and_remove_store, "removed or made anew", id="K16 an older folder and no database"
    ),
]


def attacked(data: Path, attack: Any) -> None:
    run_calls(data, "tea")
    shutil.copytree(data / AUDIT_FOLDER, data / "yesterday")
    run_calls(data, "silver", "gold")
    attack(data)


@pytest.mark.threat("K15")
@pytest.mark.threat("K16")
@pytest.mark.parametrize(("attack", "what"), ATTACKS)
async def test_K15_K16_level_4_calls_after_audit_tampering_are_refused_until_an_operator_accepts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, attack: Any, what: str
) -> None:
    """The log says it, health says it, calls without side effects run on; the acceptance is in the audit."""
    await asyncio.to_thread(attacked, tmp_path, attack)
    with Toolhall(sell, look, config=Config(data=str(tmp_path))) as hall:
        with caplog.at_level(logging.ERROR):
            await hall.open()
        assert "AUDIT BEHIND THE STORE" in caplog.text
        assert what in caplog.text
        refused = await call(hall, "sell", what="more")
        assert isinstance(refused, Unavailable)
        assert "toolhall audit accept" in refused.message
        assert await call(hall, "look") == b'"seen"'
        browser = Browser(hall)
        assert (await browser.api("GET", "/health"))[1]["status"] == "degraded"
        status, told = await browser.api("POST", "/api/audit/accept")
        assert (status, bool(told["accepted"])) == (200, True)
        assert what in " ".join(told["accepted"])
        assert await call(hall, "sell", what="more") == b'"sold more"'
        assert (await browser.api("GET", "/health"))[1]["status"] == "healthy"
        assert (await browser.api("POST", "/api/audit/accept"))[1] == {"accepted": []}
        await hall.settle()
    assert "accept audit" in {each["tool"] for each in recorded(tmp_path)}
    await asyncio.to_thread(run_calls, tmp_path, "and more")  # the store goes on with what was accepted


@pytest.mark.threat("K15")
@pytest.mark.threat("K16")
@pytest.mark.parametrize(("attack", "what"), ATTACKS)
def test_K15_K16_audit_verify_reports_the_tampering_with_exit_code_1_until_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], attack: Any, what: str
) -> None:
    """Exit code 1 before it was accepted, and a note of who did ever after."""
    attacked(tmp_path, attack)
    assert verify(options=AuditVerifyOptions(data=tmp_path)) == 1
    assert what in capsys.readouterr().out
    accept(options=HallOptions(data=tmp_path))
    assert what in capsys.readouterr().out
    assert verify(options=AuditVerifyOptions(data=tmp_path)) == 0
    told = capsys.readouterr()
    assert "local accepted the audit as it was" in told.err
    assert "as the store knows them" in told.out


@pytest.mark.threat("K16")
@pytest.mark.parametrize(
    "statement", ["DELETE FROM audit_anchors", "UPDATE audit_anchors SET marks = '[]', public = ''"]
)
async def test_K16_audit_anchor_changed_by_sql_is_detected_and_stops_level_4_calls(
    tmp_path: Path, statement: str
) -> None:
    """Whoever can write to the database and not make its codes is noticed like whoever writes to the audit."""
    await asyncio.to_thread(attacked, tmp_path, truncate_log_and_checkpoints)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection, connection:
        connection.execute(statement)
    with Toolhall(sell, config=Config(data=str(tmp_path))) as hall:
        await hall.open()
        assert isinstance(await call(hall, "sell", what="more"), Unavailable)
        assert "changed or removed by another program" in hall.journal.behind[0]


@pytest.mark.threat("K16")
@pytest.mark.parametrize("with_key", [True, False], ids=["its key stays", "its key is gone, too"])
async def test_K16_recreated_database_beside_an_older_audit_is_detected_at_every_start(
    tmp_path: Path, with_key: bool
) -> None:
    """A database that is made anew, also with another key, knows nothing of the audit; that is told at every start."""
    await asyncio.to_thread(attacked, tmp_path, restore_older_audit_and_remove_store_and_checkpoints)
    if not with_key:
        (tmp_path / ROOT_KEY_FILE).unlink()
    for _ in range(2):
        with Toolhall(sell, look, config=Config(data=str(tmp_path))) as hall:
            await hall.open()
            assert isinstance(await call(hall, "sell", what="more"), Unavailable)
            assert "removed or made anew" in hall.journal.behind[0]
            key, _ = await hall.access.keys.create(NewKey("other"), "local")  # the database is written to all the same
            await hall.access.keys.revoke(key.id)
            await hall.settle()
        assert (tmp_path / DATABASE_FILE).exists()


@pytest.mark.threat("K16")
async def test_K16_audit_that_never_had_a_database_verifies(tmp_path: Path) -> None:
    """Of an earlier version, or of a hall that never made one: the first database takes over, and counts from then."""
    for _ in range(2):
        journal = AuditJournal(tmp_path)
        await journal.commit(record())
        journal.close()
    assert verify(options=AuditVerifyOptions(data=tmp_path)) == 0
    await asyncio.to_thread(run_calls, tmp_path, "silver")
    assert verify(options=AuditVerifyOptions(data=tmp_path)) == 0
    remove_store(tmp_path)
    assert verify(options=AuditVerifyOptions(data=tmp_path)) == 1


@pytest.mark.threat("K16")
async def test_K16_audit_copied_to_another_folder_verifies_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No hall's folder has neither a database nor its key; there `verify` says so, and finds nothing wrong."""
    await asyncio.to_thread(run_calls, tmp_path / "hall", "tea")
    shutil.copytree(tmp_path / "hall" / AUDIT_FOLDER, tmp_path / "moved" / AUDIT_FOLDER)
    assert verify(options=AuditVerifyOptions(data=tmp_path / "moved")) == 0
    assert "as in a folder that an audit was moved to" in capsys.readouterr().err


@pytest.mark.threat("K15")
async def test_K15_acceptance_in_one_worker_process_holds_for_all_workers(tmp_path: Path) -> None:
    """Each process of a hall notices it by itself, and goes on once an operator has asked any of them."""
    await asyncio.to_thread(attacked, tmp_path, truncate_log_and_checkpoints)
    config = Config(data=str(tmp_path))
    with Toolhall(sell, config=config) as one, Toolhall(sell, config=config) as other:
        await one.open(OpenOptions(role="first"))
        await other.open(OpenOptions(role="sibling"))
        assert isinstance(await call(other, "sell", what="more"), Unavailable)
        assert (await Browser(one).api("POST", "/api/audit/accept"))[1]["accepted"]
        async with asyncio.timeout(patience()):
            while other.journal.behind:  # noqa: ASYNC110 - another process would tell nobody either
                await asyncio.sleep(0.05)
        assert await call(other, "sell", what="more") == b'"sold more"'
        await one.settle()
        await other.settle()


@pytest.mark.threat("K15")
async def test_K15_database_older_than_the_audit_log_is_taken_for_a_crash(tmp_path: Path) -> None:
    """The log is synced first; what the store missed it takes over at the next start."""
    await asyncio.to_thread(run_calls, tmp_path, "tea")
    shutil.copy(tmp_path / DATABASE_FILE, tmp_path / "kept.db")
    await asyncio.to_thread(run_calls, tmp_path, "silver")
    shutil.copy(tmp_path / "kept.db", tmp_path / DATABASE_FILE)
    with Toolhall(sell, config=Config(data=str(tmp_path))) as hall:
        await hall.open()
        assert hall.journal.behind == ()
        assert await call(hall, "sell", what="gold") == b'"sold gold"'
        await hall.settle()
    await asyncio.to_thread(truncate_log_and_checkpoints, tmp_path)
    with Toolhall(sell, config=Config(data=str(tmp_path))) as hall:
        await hall.open()
        assert hall.journal.behind


@pytest.mark.threat("K15")
async def test_K15_segments_deleted_by_retention_are_not_reported_missing(tmp_path: Path) -> None:
    """Also where the store knows only of a checkpoint that was dropped with them."""
    await asyncio.to_thread(run_calls, tmp_path, "tea")
    shutil.copy(tmp_path / DATABASE_FILE, tmp_path / "kept.db")
    (segment,) = segments_of(tmp_path / AUDIT_FOLDER / "1")
    clock = Clock(segment.stat().st_mtime)
    journal = AuditJournal(tmp_path, Retention(days=1), clock=clock)
    for _ in range(3):
        clock.now += 2 * DAY
        await journal.commit(record())
    journal.close()
    assert not segment.exists()
    shutil.copy(tmp_path / "kept.db", tmp_path / DATABASE_FILE)
    with Toolhall(sell, config=Config(data=str(tmp_path))) as hall:
        await hall.open()
        assert hall.journal.behind == ()
        assert await call(hall, "sell", what="gold") == b'"sold gold"'
    assert verify(options=AuditVerifyOptions(data=tmp_path)) == 0


@pytest.mark.threat("K15")
async def test_K15_intent_of_a_level_7_call_is_anchored_in_the_store_before_the_tool_ends(tmp_path: Path) -> None:
    """Its intent has a checkpoint that the store hears of as the call begins, not within a minute."""
    data, known = tmp_path / "data", list[Anchor]()
    await asyncio.to_thread(run_calls, data, "tea")
    shutil.copytree(data / AUDIT_FOLDER, tmp_path / "before")

    @tool(level=7, effect="destroys", timeout=patience())
    def scrap() -> str:
        while compare_with_anchor(tmp_path / "before", anchor := read_anchor(data)) == []:
            time.sleep(0.02)
        known.append(anchor)
        return "scrapped"

    with Toolhall(scrap, config=Config(data=str(data))) as hall:
        await hall.open()
        assert await call(hall, "scrap") == b'"scrapped"'  # before its time is up
        await hall.settle()
    assert [each.what for each in compare_with_anchor(tmp_path / "before", known[0])] == ["rollback"]
    assert compare_with_anchor(data / AUDIT_FOLDER, known[0]) == []


KILLED = """
import asyncio, os, sys
from toolhall import Toolhall, tool
from toolhall.config import Config
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool

@tool(level=4, effect="writes")
async def sell(what: str) -> str:
    if what == "gold":
        os.kill(os.getpid(), 9)
    return what

async def main():
    hall = Toolhall(sell, config=Config(data=sys.argv[1]))
    await hall.dispatcher.answer(CallTool("sell", {"what": "tea"}, "test"), LOCAL)
    await hall.journal.flush()
    await hall.dispatcher.answer(CallTool("sell", {"what": "gold"}, "test"), LOCAL)

asyncio.run(main())
"""


@pytest.mark.threat("K17")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
async def test_K17_intent_without_an_outcome_is_listed_by_audit_verify(cli: CliRunner) -> None:
    """A call whose process was killed while its tool ran; one that ended is not in the list."""
    script = cli.data / "killed.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(KILLED)
    process = await asyncio.create_subprocess_exec(sys.executable, str(script), str(cli.data), env=os.environ)
    assert await process.wait() == -signal.SIGKILL
    done = cli.run("audit", "verify")
    assert done.code == 0, done
    assert "1 intent without an outcome" in done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("no outcome: ")]
    assert "killed.sell@" in line
    assert "called by local at " in line
    report = cli.run("audit", "verify", "--json").json()
    (unfinished,) = report["unfinished"]
    (intent,) = [each for each in recorded(cli.data) if each["call"] == unfinished["call"]]
    assert (intent["phase"], intent["tool"]) == ("intent", unfinished["tool"])
