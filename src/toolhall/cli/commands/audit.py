"""`toolhall audit tail`, `search`, `verify`, `accept` and `export`: the audit log of all calls."""

import os
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, BinaryIO, Protocol

import msgspec
from cyclopts import Parameter

from toolhall.cli.clients.management import ManagementClient, open_management
from toolhall.cli.errors import EXIT_FAILED, CommandError, UsageError
from toolhall.cli.hall_options import HallOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import DIM, GREEN, RED, YELLOW, note, pluralize, print_answer_json, print_json, styled, visible
from toolhall.cli.progress import show_progress
from toolhall.cli.settings import read_config_with_data
from toolhall.model.json import JsonObject, encode
from toolhall.stores.audit.anchors import Anchor
from toolhall.stores.audit.filters import FILTER_NAMES, InvalidQuery, parse_query
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER, BadKey
from toolhall.stores.audit.query import iter_oldest_first, record_document, total_bytes
from toolhall.stores.audit.query import search as search_folder
from toolhall.stores.audit.verify import ExternalEvidence, VerificationReport
from toolhall.stores.audit.verify import verify_audit as verify_folder
from toolhall.stores.common import DATABASE_FILE, StoreFailed
from toolhall.stores.crypto import ROOT_KEY_FILE, exposed_paths

MAX_RECORDS = 1_000
_POLL_SECONDS = 0.5
_MAX_REMEMBERED = 10_000
_OVERLAP = timedelta(seconds=5)  # records of several processes may arrive out of order
_COLOURS = {"ok": GREEN, "tool_error": YELLOW, "asked": YELLOW, "intent": DIM}


def read_anchor(data: Path) -> Anchor:
    """What the store of a data folder knows of the audit beside it; empty without a store."""
    if not (data / DATABASE_FILE).exists():
        return Anchor()
    from toolhall.stores.sqlite import open_readonly  # lazy: SQLAlchemy

    try:
        stores = open_readonly(data)
    except StoreFailed as failed:
        raise CommandError(f"the audit cannot be compared with the store: {failed}") from None
    try:
        found: Anchor = stores.anchors.read()
    except StoreFailed as failed:
        raise CommandError(f"the audit cannot be compared with the store: {failed}") from None
    finally:
        stores.close()
    return found


def audited_folder(folder: Path | None) -> Path:
    """The data folder of --data or the default; raises CommandError if it has no audit."""
    data = Path(read_config_with_data(data=str(folder) if folder else None).data or "")
    if not (data / AUDIT_FOLDER).is_dir() and not read_anchor(data).marks:
        raise CommandError(f"nothing is recorded in {data}; name another folder with --data")
    return data


def print_records(records: list[JsonObject], *, json: bool, lines: bool = False) -> None:
    """Print records as text, as one JSON list, or with `lines` as JSON lines."""
    if json:
        for value in records if lines else (records,):
            print_answer_json(value)
        sys.stdout.flush()
        return
    for record in records:
        print(_record_line(record))
    sys.stdout.flush()


def _record_line(record: JsonObject) -> str:
    outcome = visible(record["outcome"])
    shown = styled(f"{outcome:<12}", _COLOURS.get(outcome, RED), sys.stdout)
    who = record["caller"] if "person" not in record else f"{record['caller']} ({record['person']})"
    took = f"{record.get('durationUs', 0) / 1_000:.1f} ms"
    parts = (f"{who:<16}", shown, f"{record['tool']:<32}", f"{took:>10}", record["dialect"], _verdict_text(record))
    return "  ".join([visible(record["at"]), *(part if part is shown else visible(part) for part in parts)]).rstrip()


def _verdict_text(record: JsonObject) -> str:
    parts = [f"level {record['level']}" if "level" in record else "", record.get("verdict", "")]
    parts += [f"by {record['grant']}" if "grant" in record else "", record.get("reason", "")]
    answered = "asked" if record["outcome"] == "NeedsVerification" else "approved"
    parts += [f"{answered} in {record['approval']}" if "approval" in record else ""]
    return " ".join(filter(None, parts))


@dataclass(frozen=True)
class AuditTailOptions(HallOptions):
    """Options of `toolhall audit tail`.

    Parameters
    ----------
    number
        How many records, the newest last.
    follow
        Go on with what comes, until it is interrupted.
    """

    number: Annotated[int, Parameter(name=("--number", "-n"))] = 20
    follow: Annotated[bool, Parameter(name=("--follow", "-f"))] = False


@dataclass(frozen=True)
class AuditSearchOptions(HallOptions):
    """Options of `toolhall audit search`.

    Parameters
    ----------
    caller
        Only what this caller did.
    tool
        Only what was done with this tool: its id, or Toolkit.tool for all versions.
    outcome
        Only what ended like this: ok, tool_error, the name of an error, such as Denied, or refused, failed or asked.
    stage
        Only what ended in this stage, such as verify; audit for what passed all.
    verdict
        Only what was decided like this: allow, deny or verify.
    grant
        Only what this grant decided.
    call
        Only the records of this call.
    dialect
        Only what came in this dialect.
    server
        Only what this tool server ran.
    level
        Only from this level up.
    since
        Not before this day or time; without a zone it is UTC.
    until
        Before this day or time.
    limit
        How many records, the newest first.
    """

    caller: str | None = None
    tool: str | None = None
    outcome: str | None = None
    stage: str | None = None
    verdict: str | None = None
    grant: str | None = None
    call: str | None = None
    dialect: str | None = None
    server: str | None = None
    level: int | None = None
    since: str | None = None
    until: str | None = None
    limit: int = 100


class RecordQuery(Protocol):
    """Searches the records of a data folder or of a running hall."""

    def __call__(self, filters: Mapping[str, str | None], limit: int) -> list[JsonObject]:
        """The newest records that match, the newest first."""
        ...


_TAIL_DEFAULTS = AuditTailOptions()
_SEARCH_DEFAULTS = AuditSearchOptions()


def tail(*, options: Annotated[AuditTailOptions, Parameter(name="*")] = _TAIL_DEFAULTS) -> None:
    """Show the newest records, the newest last."""
    start_logging(None)
    _check_limit("--number", options.number)
    with _open_query(options) as records:
        found = records({}, MAX_RECORDS if options.follow else options.number)
        print_records(found[: options.number][::-1], json=options.json, lines=options.follow)
        if options.follow:
            for more in _follow(records, found):
                print_records(more, json=options.json, lines=True)


def search(*, options: Annotated[AuditSearchOptions, Parameter(name="*")] = _SEARCH_DEFAULTS) -> None:
    """Find records by who called what, when, and how it ended; the newest first.

    Names may be globs, and several of them separated by commas, such as --tool 'Mail.*,Chat.*'.
    """
    start_logging(None)
    _check_limit("--limit", options.limit)
    filters = {name: None if (value := getattr(options, name)) is None else str(value) for name in FILTER_NAMES}
    with _open_query(options) as records:
        found = records(filters, options.limit)
    print_records(found, json=options.json)
    if not found and not options.json:
        note("no record fits")


@contextmanager
def _open_query(options: HallOptions) -> Generator[RecordQuery, None, None]:
    if options.url is None:
        data = audited_folder(options.data)
        yield lambda filters, limit: _query_folder(data, filters, limit)
        return
    with open_management(options) as client:
        yield lambda filters, limit: _query_hall(client, filters, limit)


def _query_folder(data: Path, filters: Mapping[str, str | None], limit: int) -> list[JsonObject]:
    try:
        wanted = parse_query(filters)
    except InvalidQuery as error:
        raise UsageError(f"--{error}") from None
    return [record_document(found) for found in search_folder(data, wanted, limit).records]


def _query_hall(client: ManagementClient, filters: Mapping[str, str | None], limit: int) -> list[JsonObject]:
    found: list[JsonObject] = client.request("GET", "audit", query={**filters, "limit": str(limit)})["records"]
    return found


def _follow(query: RecordQuery, found: list[JsonObject]) -> Iterator[list[JsonObject]]:
    """Yield new records for ever; each poll overlaps the last, because records may arrive out of order."""
    seen = {(each["log"], each["number"]): None for each in found[::-1]}
    newest = found[0]["at"] if found else None
    while True:
        time.sleep(_POLL_SECONDS)
        recent = query({"since": newest and _shortly_before(newest)}, MAX_RECORDS)
        new = [each for each in recent if (each["log"], each["number"]) not in seen]
        newest = recent[0]["at"] if recent else newest
        seen |= dict.fromkeys((each["log"], each["number"]) for each in new)
        for old in list(seen)[:-_MAX_REMEMBERED]:
            del seen[old]
        if new:
            yield new[::-1]


def _shortly_before(at: str) -> str:
    return (datetime.fromisoformat(at) - _OVERLAP).isoformat()


def _check_limit(name: str, limit: int) -> None:
    if not 1 <= limit <= MAX_RECORDS:
        raise UsageError(f"{name} is a number from 1 to {MAX_RECORDS}")


@dataclass(frozen=True)
class AuditVerifyOptions:
    """Options of `toolhall audit verify`.

    Parameters
    ----------
    data
        The data folder of a hall, which may be running. [default: that of this project]
    key
        A copy of audit.pub, instead of the one beside the records.
    checkpoints
        A copy of audit.checkpoints, instead of the one beside the records.
    json
        Print JSON.
    """

    data: Path | None = None
    key: Path | None = None
    checkpoints: Path | None = None
    json: bool = False


_VERIFY_DEFAULTS = AuditVerifyOptions()


def verify(*, options: Annotated[AuditVerifyOptions, Parameter(name="*")] = _VERIFY_DEFAULTS) -> int:
    """Check that no record was changed, removed, added or moved since it was written.

    It names the first that was, in each log, and compares the logs with the newest checkpoints that the hall's store
    knows. It lists calls and changes that were begun and whose end is not recorded, and names keys and folders that
    other users of the machine can open. Somebody who can write to all of the data folder can also sign anew: so keep
    copies of audit.pub and audit.checkpoints where they cannot, and verify with those.
    """
    start_logging(None)
    data = audited_folder(options.data)
    for each in exposed_paths(data):
        note(visible(each))
    for path in (options.key, options.checkpoints):
        if path is not None and not path.is_file():
            raise UsageError(f"there is no file {path}")
    moved = not any((data / name).exists() for name in (DATABASE_FILE, ROOT_KEY_FILE))
    elsewhere = ExternalEvidence(options.key, options.checkpoints, read_anchor(data), moved)
    try:
        with show_progress(total_bytes(data), output_scrolls=False, noun="line") as bar:
            report = verify_folder(data / AUDIT_FOLDER, elsewhere, bar.advance)
    except BadKey as error:
        raise CommandError(str(error)) from None
    except OSError as error:  # a hall that runs may drop old files meanwhile
        raise CommandError(f"{error.filename} cannot be read: {error.strerror}; try again") from None
    if options.json:
        print_json({**msgspec.to_builtins(report), "good": report.good})
    else:
        _print_report(report)
    return 0 if report.good else EXIT_FAILED


def _print_report(report: VerificationReport) -> None:
    for text in report.notes:
        note(visible(text))
    for finding in report.findings:
        print(visible(str(finding)))
    for each in report.unfinished:
        print(visible(f"no outcome: {each}"))
    if report.unfinished:
        note(
            f"{pluralize(len(report.unfinished), 'intent')} without an outcome: the process was killed, the call still"
            " runs, or its record was lost with a full disk; whether the tool ran to its end cannot be told"
        )
    seen = f"{pluralize(report.records, 'record')} in {pluralize(report.logs, 'log')}"
    signed = pluralize(report.checkpoints, "checkpoint")
    if report.good:
        judged = (
            ""
            if report.outside
            else ", and as the store knows them (a copy given with --checkpoints proves more)"
            if report.anchored
            else ", as far as this folder itself can tell (a copy given with --checkpoints proves more)"
        )
        print(f"{seen}, {signed}: all as they were written{judged}")
    else:
        note(f"{seen} and {signed} were as they were written, up to there")


_ACCEPT_DEFAULTS = HallOptions()


def accept(*, options: Annotated[HallOptions, Parameter(name="*")] = _ACCEPT_DEFAULTS) -> None:
    """Accept the audit log as it is, although the store knows more of it, so that calls of level 4 and up run again.

    A log that was cut off, put back or replaced stays as it is: look at toolhall audit verify first, and keep a copy of
    the folder. Who accepted it, and what was missing, is recorded, and every later verify says so.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        answer = client.request("POST", "audit", "accept")
    if options.json:
        print_answer_json(answer)
        return
    for each in answer["accepted"]:
        print(visible(each))
    note("accepted as it is" if answer["accepted"] else "nothing to accept: the audit is what the store knows of it")


@dataclass(frozen=True)
class AuditExportOptions:
    """Options of `toolhall audit export`.

    Parameters
    ----------
    data
        The data folder of a hall, which may be running. [default: that of this project]
    out
        The file to write, readable by its owner only; the standard output when left out.
    json
        With --out: print what was written as JSON.
    """

    data: Path | None = None
    out: Path | None = None
    json: bool = False


_EXPORT_DEFAULTS = AuditExportOptions()


def export(*, options: Annotated[AuditExportOptions, Parameter(name="*")] = _EXPORT_DEFAULTS) -> None:
    """Write the records of all processes in the order of their time, one JSON document on each line."""
    start_logging(None)
    data = audited_folder(options.data)
    if options.out is None:
        sys.stdout.flush()
        _write_records(data, sys.stdout.buffer)
        return
    try:
        opened = os.open(options.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "wb") as file:
            count = _write_records(data, file)
    except OSError as error:
        raise CommandError(f"{options.out} cannot be written: {error.strerror}") from None
    if options.json:
        print_json({"records": count, "out": str(options.out)})
    else:
        note(f"{pluralize(count, 'record')} written to {options.out}")


def _write_records(data: Path, file: BinaryIO) -> int:
    count = 0
    with show_progress(total_bytes(data), output_scrolls=file.isatty(), noun="record") as bar:
        for found in iter_oldest_first(data, bar.advance):
            file.write(encode(record_document(found)) + b"\n")
            count += 1
    file.flush()
    return count
