"""Verifies an audit: every log in its folder, against its key and its witness."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from toolhall.stores.audit.anchors import Anchor, forgotten, gone, other_key, unsound
from toolhall.stores.audit.checking import Checking, Wrong
from toolhall.stores.audit.findings import Finding, Report
from toolhall.stores.audit.segments import FOLDER, logs_of, segments_of
from toolhall.stores.audit.signing import KEY_FILE, PUBLIC_FILE, PublicKey, read_public
from toolhall.stores.audit.witness import WITNESS_FILE, Witness, read_witness
from toolhall.stores.base import FILE_NAME
from toolhall.stores.seal import KEY_NAME

_NOTHING = Anchor()


class Elsewhere(msgspec.Struct, frozen=True):
    """What an audit is compared with that is not beside it: copies of two of its files, and what the store knows."""

    key: Path | None = None
    witness: Path | None = None
    anchor: Anchor = _NOTHING  # read before the logs are, because a hall may go on
    moved: bool = False  # the folder is no hall's, so there need not be a store


def verify(folder: Path, elsewhere: Elsewhere, step: Callable[[int], None]) -> Report:
    """Read every line once; raises BadKey, and OSError for a file that cannot be read. `step` hears of bytes."""
    key, witness, anchor = elsewhere.key, elsewhere.witness, elsewhere.anchor
    report = Report(outside=witness is not None, anchored=bool(anchor.public) and anchor.sound)
    for each in anchor.accepted:
        report.notes.append(f"{FILE_NAME}: {each.by} accepted the audit as it was, though {'; '.join(each.findings)}")
    if not anchor.sound:
        report.findings.append(unsound())
    seen = _seen(folder, witness, report)  # before the logs: a witness knows nothing that they do not hold by then
    logs = [log for log in logs_of(folder) if segments_of(log)]
    if not logs and anchor.marks:
        report.findings += map(gone, anchor.marks.values())
        return report
    if not logs and not seen.seen:
        _miss_logs(report, founded=key is not None or any((folder / name).exists() for name in (KEY_FILE, PUBLIC_FILE)))
        return report
    public = read_public(key or folder / PUBLIC_FILE)
    if anchor.public not in ("", public.pem()):
        report.findings.append(other_key(PUBLIC_FILE))
    checked = [_checked(log, Checking(report, public, seen, anchor.marks), step) for log in logs]
    if anchor.sound and not anchor.public and any(each.stored for each in checked):
        _miss_store(report, moved=elsewhere.moved)
    there = {each.log for each in checked}
    report.findings += [gone(mark) for mark in anchor.marks.values() if mark.log not in there]
    for lost in sorted(seen.seen.keys() - there - anchor.marks.keys()):
        report.findings.append(_gone(seen, lost, public))
    if witness is not None or report.findings:
        return report  # a copy need not have seen everything
    if (folder / WITNESS_FILE).exists():
        _miss_lines(report, checked, read_witness(folder / WITNESS_FILE))  # again: a hall may have gone on
    else:
        _miss_witness(report)
    return report


def _checked(log: Path, checking: Checking, step: Callable[[int], None]) -> Checking:
    """A log that was followed; what is wrong with it is in the report."""
    checking.report.logs += 1
    try:
        checking.follow(log, step)
    except Wrong as wrong:
        checking.report.findings.append(wrong.finding)
    return checking


def _seen(folder: Path, witness: Path | None, report: Report) -> Witness:
    path = witness or folder / WITNESS_FILE
    if witness is None and not path.exists():
        return Witness({})
    seen = read_witness(path)
    if seen.unreadable:
        report.notes.append(f"{path.name}: lines that cannot be read, as after a crash: {seen.unreadable}")
    return seen


def _miss_logs(report: Report, *, founded: bool) -> None:
    """The key is made with the first log; where there is one, there was the other."""
    if founded:
        says = "there is a key, so there was a log, and no log is here: all of them were removed"
        report.findings.append(Finding("missing", f"{FOLDER}/", 0, 0, says))
    else:
        report.notes.append("nothing is recorded yet")


def _miss_lines(report: Report, checked: list[Checking], seen: Witness) -> None:
    """The witness hears of each checkpoint before the next is signed; only the newest may be on its way."""
    for log in checked:
        unseen = [number for number in log.checkpoints[:-1] if number not in seen.seen.get(log.log, {})]
        if unseen:
            says = (
                f"{len(unseen)} checkpoints of the log {log.log} were signed, and are not in the file that saw them,"
                f" from number {unseen[0]} on: its lines were removed, so whether logs were cut off cannot be told;"
                " give a copy of it with --checkpoints"
            )
            report.findings.append(Finding("missing", WITNESS_FILE, 0, unseen[0], says))


def _miss_witness(report: Report) -> None:
    """What was signed was seen: a witness of it that is gone was removed. Before that, there need not be any."""
    if report.checkpoints:
        says = (
            f"{report.checkpoints} checkpoints were signed, and the file that saw them is gone: whether logs were cut"
            " off or put back cannot be told; give a copy of it with --checkpoints"
        )
        report.findings.append(Finding("missing", WITNESS_FILE, 0, 0, says))
    else:
        report.notes.append(f"there is no {WITNESS_FILE}: an older copy of a log cannot be told from the newest")


def _miss_store(report: Report, *, moved: bool) -> None:
    """A checkpoint says that the store knew of it."""
    if moved:
        report.notes.append(f"there is no {FILE_NAME} and no {KEY_NAME} here, as where an audit was moved to")
    else:
        report.findings.append(forgotten())


def _gone(seen: Witness, log: str, public: PublicKey) -> Finding:
    last = max(seen.seen[log].values(), key=lambda mark: mark.number)
    if not public.signed("checkpoint", last):
        return Finding("bad signature", WITNESS_FILE, 0, last.number, "this checkpoint was not signed with this key")
    says = f"the log {log} is gone, or its first line; the witness saw it at number {last.number}"
    return Finding("missing", WITNESS_FILE, 0, last.number, says)
