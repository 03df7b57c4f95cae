# ruff: noqa: N802 - tests carry the names of their rows
"""Rows J and G9: the audit cannot be bent, cannot be forged, and tells no secrets."""

import asyncio
import base64
import hashlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.faults.test_audit_killed import killed
from tests.harness import asgi_client
from tests.recorded import recorded
from tests.unit.stores.audit.audit_logs import calls, finding, open_writer, record, verified, write_records
from toolhall.app import Toolhall
from toolhall.authoring.declaration import tool
from toolhall.config import Config
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.messages import CallTool
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER, segments_of
from toolhall.stores.audit.journal import AuditJournal
from toolhall.stores.audit.writer import Retention

CANARY = "canary-5c0ffee"
FORGED = 'ada\n{"sha256":"00","number":1,"record":{"caller":"mallory"}}\r\x1b[2J\u2028\u202e\x00'


@tool(level=4)
async def sell(what: str) -> str:
    return f"sold {what}"


def tamper(log: Path, how: str) -> int:
    """Do something to one line of a log; the number of the line."""
    segment = segments_of(log)[1]
    lines = segment.read_bytes().splitlines(keepends=True)
    number = json.loads(lines[3])["number"]
    if how == "flip":
        lines[3] = lines[3].replace(b'"caller":"ada"', b'"caller":"adb"')
    elif how == "delete":
        del lines[3]
    elif how == "swap":
        lines[3], lines[4] = lines[4], lines[3]
    else:
        del lines[3:]
    segment.write_bytes(b"".join(lines))
    return int(number)


@pytest.mark.threat("J1")
@pytest.mark.parametrize(
    ("how", "what"), [("flip", "changed"), ("delete", "missing"), ("swap", "moved"), ("truncate", "missing")]
)
def test_J1_flipped_deleted_swapped_or_truncated_audit_record_is_named_by_its_number(
    tmp_path: Path, how: str, what: str
) -> None:
    """A record that was flipped, deleted, swapped or cut off is found, and is named by its number."""
    write_records(tmp_path, 40)
    number = tamper(tmp_path / "1", how)
    found = finding(tmp_path)
    assert (found.what, found.number) == (what, number)


@pytest.mark.threat("J1")
def test_J1_audit_chain_with_recomputed_hashes_fails_its_signatures(tmp_path: Path) -> None:
    """Somebody without the key who changes a record and mends every hash behind it cannot sign the checkpoints."""
    write_records(tmp_path, 9, Retention(sign_records=5))
    (segment,) = segments_of(tmp_path / "1")
    last, mended = b"0" * 64, list[bytes]()
    for line in segment.read_bytes().splitlines():
        body = line[77:].replace(b"call-2", b"call-X")
        last = hashlib.sha256(last + body).hexdigest().encode()
        mended.append(b'{"sha256":"' + last + b'",' + body + b"\n")
    segment.write_bytes(b"".join(mended))
    assert finding(tmp_path).what in ("bad signature", "rollback")
    (tmp_path / "audit.checkpoints").unlink()
    assert finding(tmp_path).what == "bad signature"


@pytest.mark.threat("J2")
def test_J2_restored_older_audit_log_is_reported_as_rollback(tmp_path: Path) -> None:
    """A log that was put back as it was, beside today's witness or against a copy kept elsewhere, is a rollback."""
    folder, yesterday, elsewhere = tmp_path / "audit", tmp_path / "yesterday", tmp_path / "elsewhere"
    write_records(folder, 20)
    shutil.copytree(folder, yesterday)
    write_records(folder, 20, start=20)
    elsewhere.mkdir()
    for name in ("audit.checkpoints", "audit.pub"):
        shutil.copy(folder / name, elsewhere)
    shutil.rmtree(folder)
    shutil.copytree(yesterday, folder)
    assert verified(folder).good, "alone it is whole"
    assert finding(folder, witness=elsewhere / "audit.checkpoints", key=elsewhere / "audit.pub").what == "rollback"
    shutil.copy(elsewhere / "audit.checkpoints", folder)
    assert finding(folder).what == "rollback"


@pytest.mark.threat("J1")
@pytest.mark.parametrize("left", [("audit.pub", "audit.key"), ("audit.key",), ("audit.pub",)])
def test_J1_removed_audit_log_is_reported_missing_while_a_key_file_remains(
    tmp_path: Path, left: tuple[str, ...]
) -> None:
    """Where there is a key there was a log; a folder that never was one has neither."""
    folder = tmp_path / "audit"
    write_records(folder, 20)
    shutil.rmtree(folder / "1")
    for name in {"audit.pub", "audit.key", "audit.checkpoints"} - set(left):
        (folder / name).unlink()
    assert finding(folder).what == "missing"
    assert verified(tmp_path / "never").good


@pytest.mark.threat("J1")
def test_J1_removed_audit_folder_is_reported_missing_against_a_copy_of_the_key(tmp_path: Path) -> None:
    """Also where nothing at all is left in the folder."""
    folder, elsewhere = tmp_path / "audit", tmp_path / "audit.pub"
    write_records(folder, 20)
    shutil.copy(folder / "audit.pub", elsewhere)
    shutil.rmtree(folder)
    assert finding(folder, key=elsewhere).what == "missing"


@pytest.mark.threat("J2")
@pytest.mark.parametrize("kept", [0, 1, 3])
@pytest.mark.parametrize("log", ["whole", "cut", "gone on with"])
def test_J2_emptied_audit_checkpoints_file_is_reported_as_missing(tmp_path: Path, kept: int, log: str) -> None:
    """Checkpoints that the witness should have seen and has not: its lines were removed, with or without the log's."""
    write_records(tmp_path, 40)
    witness, last = tmp_path / "audit.checkpoints", segments_of(tmp_path / "1")[-1]
    witness.write_bytes(b"".join(witness.read_bytes().splitlines(keepends=True)[:kept]))
    if log == "cut":
        last.unlink()
    if log == "gone on with":
        write_records(tmp_path, 20, start=40)
    found = finding(tmp_path)
    assert (found.what, found.file) == ("missing", "audit.checkpoints")
    assert "--checkpoints" in found.says


@pytest.mark.threat("J2")
def test_J2_checkpoints_copy_older_than_the_log_verifies(tmp_path: Path) -> None:
    """A copy of the witness is made now and then; what it has not seen yet is not missing."""
    folder, elsewhere = tmp_path / "audit", tmp_path / "elsewhere"
    write_records(folder, 20)
    shutil.copy(folder / "audit.checkpoints", elsewhere)
    write_records(folder, 40, start=20)
    assert verified(folder, witness=elsewhere).good


def test_audit_checkpoint_lost_from_the_checkpoints_file_in_a_crash_is_added_at_reopening(tmp_path: Path) -> None:
    """The log is written first; a crash between the two is made good when the log is opened again."""
    write_records(tmp_path, 20)
    witness = tmp_path / "audit.checkpoints"
    for left in (0, 30):
        *seen, newest = witness.read_bytes().splitlines(keepends=True)
        witness.write_bytes(b"".join([*seen, newest[:left]]))
        assert verified(tmp_path).good, "the newest may be on its way"
        write_records(tmp_path, 20, start=20)
        assert verified(tmp_path).good
        assert newest in witness.read_bytes()


@pytest.mark.threat("J3")
@pytest.mark.parametrize("seed", [3, 4])
def test_J3_every_side_effect_of_a_killed_process_has_its_intent_record(tmp_path: Path, seed: int) -> None:
    """Processes are killed at 200 points while a tool of level 4 changes something: every change has its intent."""
    changes = killed("act", tmp_path, 100, seed)
    assert len(changes) > 100
    assert verified(tmp_path / "audit").good
    intents = {each["arguments_sha256"] for each in recorded(tmp_path) if each.get("phase") == "intent"}
    for number in changes:
        assert hashlib.sha256(b'{"number":%d}' % int(number)).hexdigest() in intents


async def answered(data: Path, *asked: tuple[str, dict[str, Any], Caller]) -> list[Any]:
    with Toolhall(sell, config=Config(data=str(data))) as hall:
        return [await hall.dispatcher.answer(CallTool(name, given, "test", 0), caller) for name, given, caller in asked]


@pytest.mark.threat("J4")
async def test_J4_argument_and_result_values_are_in_the_audit_only_as_digests(tmp_path: Path) -> None:
    """What was given to a tool and what came out is nowhere in the folder of the audit, but as a digest."""
    await answered(tmp_path, ("sell", {"what": CANARY}, LOCAL), ("sell", {"what": [CANARY]}, LOCAL))
    found = b"".join(path.read_bytes() for path in (tmp_path / AUDIT_FOLDER).rglob("*") if path.is_file())
    spelled = CANARY.encode()
    assert hashlib.sha256(b'{"what":"%b"}' % spelled).hexdigest().encode() in found
    for secret in (spelled, base64.b64encode(spelled)[:-4], spelled.hex().encode(), spelled[::-1]):
        assert secret not in found


INJECTIONS = [
    "' OR '1'='1",
    "ada'; DROP TABLE records; --",
    'ada" OR ""="',
    "ada%",
    "*' OR caller = '*",
    "[",
    ".*",
    "ada\x00",
    'ada"}',
    "../../etc/passwd",
    "\udcff",
    "a" * 10_000,
]


@pytest.mark.threat("J5")
@pytest.mark.parametrize("asked", INJECTIONS, ids=lambda text: ascii(text)[:24])
@pytest.mark.parametrize("name", ["caller", "tool", "outcome"])
async def test_J5_injection_in_an_audit_search_filter_matches_nothing(tmp_path: Path, name: str, asked: str) -> None:
    """Whatever is written into a filter finds only what is that or matches it as a glob, and nothing else happens."""
    write_records(tmp_path / AUDIT_FOLDER, 3)
    before = calls(tmp_path / AUDIT_FOLDER)
    with Toolhall(config=Config(data=str(tmp_path))) as hall:
        status, told = await search(hall, {name: asked})
    assert (status, told.get("records", [])) in ((200, []), (400, []))
    assert calls(tmp_path / AUDIT_FOLDER) == before


GLOBS = {"*": ["eve", "bob", "ada"], "?da": ["ada"], "[!a]*": ["eve", "bob"], "eve,a*": ["eve", "ada"], "*z*": []}


@pytest.mark.threat("J5")
@pytest.mark.parametrize("asked", GLOBS)
async def test_J5_glob_in_an_audit_search_filter_finds_only_what_matches_it(tmp_path: Path, asked: str) -> None:
    """A star is a wildcard of the filter that it stands in, and never of another one."""
    writer = open_writer(tmp_path / AUDIT_FOLDER)
    writer.write([record(number, caller=caller) for number, caller in enumerate(("ada", "bob", "eve"))])
    writer.close()
    with Toolhall(config=Config(data=str(tmp_path))) as hall:
        status, told = await search(hall, {"caller": asked})
        assert (status, [each["caller"] for each in told["records"]]) == (200, GLOBS[asked])
        status, told = await search(hall, {"caller": asked, "tool": "Other.*"})
        assert (status, told["records"]) == (200, [])


async def search(hall: Toolhall, asked: dict[str, str]) -> tuple[int, Any]:
    """What `/api/audit` says."""
    query = urlencode(asked, errors="surrogateescape")
    reply = await asgi_client.send(hall, "GET", f"/api/audit?{query}")
    return reply.status, reply.json


@pytest.mark.threat("J6")
async def test_J6_audit_files_are_mode_0600_and_folders_0700_whatever_the_umask(tmp_path: Path) -> None:
    """Every file is made with mode 0600 and every folder with 0700, whatever the umask is."""
    before = os.umask(0)
    try:
        await answered(tmp_path / "data", ("sell", {"what": "x"}, LOCAL))
        write_records(tmp_path / "data" / AUDIT_FOLDER, 60)
        segment = segments_of(tmp_path / "data" / AUDIT_FOLDER / "1")[-1]
        with segment.open("ab") as file:
            file.write(b"half a line")
        write_records(tmp_path / "data" / AUDIT_FOLDER, 1)
    finally:
        os.umask(before)
    found = [tmp_path / "data" / AUDIT_FOLDER, *(tmp_path / "data" / AUDIT_FOLDER).rglob("*")]
    assert any(path.suffix == ".torn" for path in found)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in found}
    assert {name: mode for name, mode in modes.items() if mode not in (0o600, 0o700)} == {}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in found if path.is_dir())


@pytest.mark.threat("G9")
async def test_G9_control_characters_in_tool_and_caller_names_make_one_short_plain_audit_record(tmp_path: Path) -> None:
    """Names of tools and callers that hold line ends, escapes or a megabyte make one record each, short and plain."""
    await answered(
        tmp_path,
        (FORGED, {}, LOCAL),
        ("x" * 1_000_000, {}, LOCAL),
        ("sell", {"what": FORGED}, Caller(FORGED, person="p" * 5_000)),
        ("sell", {"what": "x"}, Caller("\ud800 surrogate")),
    )
    found = recorded(tmp_path)
    assert len(found) == 4
    assert verified(tmp_path / AUDIT_FOLDER).good
    for each in found:
        assert all(text.isprintable() and len(text) <= 256 for text in each.values() if isinstance(text, str))
    assert found[0]["caller"] == "local"


@pytest.mark.threat("G9")
async def test_G9_line_breaks_in_a_record_field_stay_on_one_audit_line(tmp_path: Path) -> None:
    """Even a record that nobody cleaned is one line of the log, and the search finds it as it was written."""
    journal = AuditJournal(tmp_path)
    journal.append(record(1, caller=FORGED))
    await asyncio.to_thread(journal.close)
    (segment,) = segments_of(tmp_path / AUDIT_FOLDER / "1")
    text = segment.read_text()
    assert text.count("\n") == 3, "the first line, the record, the checkpoint"
    assert "\x1b" not in text
    assert [AuditRecord(**each).caller for each in recorded(tmp_path)] == [FORGED]
