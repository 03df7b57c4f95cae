"""On-disk format of the audit: hash-chained lines, segment files, signed checkpoints and the witness file.

Theory of operation. The audit proves after the fact that no record was changed, removed, added or reordered, on a disk
that may fill up, lose power or be written to by an attacker. Four layers do that, each for what the one below it
cannot show:

1. Hash chain (HashChain). A line is `{"sha256":"...","number":17,"record":{...}}`. The hash covers the previous
   line's hash and everything in the line behind its own, so a change breaks all lines that follow. A log is a folder of
   segment files (`audit/1/audit-000000000000.jsonl`, named by their first number), each of which begins with a
   SegmentHeader that repeats the hash of the line before. Two processes cannot continue one chain, so each process
   claims a log of its own (writer.claim_log). The chain alone can be recomputed by anyone.
2. Checkpoints (Checkpoint, AuditSigner). An Ed25519 signature under a position of a log, after 1,000 records, a
   minute, an intent of level 7 and up, and at the end. Without `audit.key` nothing before a checkpoint can be changed.
   Everything before a checkpoint is synced before it is written: a fault before the last checkpoint is never a crash,
   and bytes behind it that do not fit were never acknowledged (recovery). A signature does not show that later lines
   were cut off.
3. Witness (`audit.checkpoints`). A small file that repeats the checkpoints of all logs, to be copied to where the hall
   cannot write. A log that ends before a witnessed checkpoint was cut off or rolled back. A checkpoint is appended to
   the witness after the log is synced, so the witness never knows more than the log.
4. Anchor (anchors). The public key and the newest checkpoint of each log, once more in a row of the database with a
   MAC. It shows that log and witness were cut together. It is stored after the log is synced, so a log that is behind
   the anchor was tampered with, and an anchor that is behind the log is the trace of a crash. `stored` in a checkpoint
   says that the database knew of the audit, so a database that was removed or replaced is noticed too.

Special lines keep the chain whole: `torn` (bytes that a crash left were set aside), `lost` (records that found no
room), `dropped` (a signed note that old segments were removed on purpose). recovery opens a log after a crash, writer
appends, journal is the queue in front of it, query reads, and verify checks all four layers.
"""

import base64
import binascii
import contextlib
import os
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from toolhall.model.call_records import AuditRecord
from toolhall.model.json import encode
from toolhall.stores.audit.disk import Disk
from toolhall.stores.crypto import load_or_create_key

MAX_LINE_BYTES = 64 * 1024  # records are much shorter; longer lines are skipped
GENESIS_HASH: Final = b"0" * 64  # the hash before the first line of a log
LineKind: TypeAlias = Literal["record", "head", "checkpoint", "torn", "dropped", "lost"]
_LINE_PREFIX = b'{"sha256":"'
_HASH_END = b'",'
_HASH_SLICE = slice(len(_LINE_PREFIX), len(_LINE_PREFIX) + len(GENESIS_HASH))
_BODY_START = _HASH_SLICE.stop + len(_HASH_END)
AUDIT_FOLDER = "audit"  # in the data folder
LOCK_FILE = "audit.lock"  # held by the process that writes to a log
LEGACY_FILE = "audit.jsonl"  # in the data folder, of versions without a hash chain
_SEGMENT_PATTERN = re.compile(r"audit-(\d{12,18})\.jsonl")
_LOG_PATTERN = re.compile(r"[1-9]\d{0,5}")
KEY_FILE = "audit.key"
PUBLIC_FILE = "audit.pub"
SignaturePurpose: TypeAlias = Literal["checkpoint", "dropped"]
# RFC 8410: the DER prefix of every Ed25519 public key.
_DER_PREFIX = bytes.fromhex("302a300506032b6570032100")
_PEM_TEMPLATE = "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n"
_KEY_BYTES = 32
WITNESS_FILE = "audit.checkpoints"
_encode_lines = msgspec.json.Encoder().encode_lines


class SegmentHeader(msgspec.Struct, frozen=True):
    """The first line of a segment: the log's id, when the segment began, and the hash of the line before."""

    log: str
    time: float
    before: str


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A signed position of a log: `before` is the hash of the line before the one with this number.

    `stored` says that the hall's database knew of this audit by then, so its absence later is a finding.
    """

    log: str
    number: int
    before: str
    time: float
    signature: str = ""
    stored: bool = False


class TornLine(msgspec.Struct, frozen=True):
    """Bytes that a crash left behind the last whole line; they were moved to this file."""

    file: str
    bytes: int
    time: float


class LostRecords(msgspec.Struct, frozen=True):
    """The number of records that were lost while the disk accepted none."""

    records: int
    time: float


class AuditLine(msgspec.Struct, frozen=True):
    """One line: its hash, its number, and exactly one of the other members."""

    sha256: str
    number: int
    record: AuditRecord | None = None
    head: SegmentHeader | None = None
    checkpoint: Checkpoint | None = None
    torn: TornLine | None = None
    dropped: Checkpoint | None = None
    lost: LostRecords | None = None


_decode_line = msgspec.json.Decoder(AuditLine).decode


class HashChain:
    """The end of a log: the number of its next line, and the hash of its last one."""

    __slots__ = ("last_hash", "number")

    def __init__(self, number: int = 0, last_hash: bytes = GENESIS_HASH) -> None:
        self.number = number
        self.last_hash = last_hash

    def encode_line(self, kind: LineKind, value: msgspec.Struct) -> bytes:
        """Encode the next line, with its newline."""
        body = b'"number":%d,"%b":%b}' % (self.number, kind.encode(), encode(value))
        self.last_hash = sha256(self.last_hash + body).hexdigest().encode()
        self.number += 1
        return b"".join((_LINE_PREFIX, self.last_hash, _HASH_END, body, b"\n"))

    def encode_records(self, records: Iterable[AuditRecord]) -> bytes:
        """Encode many records at once, which is the hot path of the audit."""
        number, last = self.number, self.last_hash
        parts: list[bytes] = []
        for record in records:
            body = b'"number":%d,"record":' % number + encode(record) + b"}"
            last = sha256(last + body).hexdigest().encode()
            parts += (_LINE_PREFIX, last, _HASH_END, body, b"\n")
            number += 1
        self.number, self.last_hash = number, last
        return b"".join(parts)

    def accept(self, line: bytes) -> bool:
        """True if this, without its newline, is the next line; the chain then continues behind it."""
        own = line[_HASH_SLICE]
        body = line[_BODY_START:]
        if sha256(self.last_hash + body).hexdigest().encode() != own or line[: _HASH_SLICE.start] != _LINE_PREFIX:
            return False
        if line[_HASH_SLICE.stop : _BODY_START] != _HASH_END or not body.startswith(b'"number":%d,' % self.number):
            return False
        self.last_hash = own
        self.number += 1
        return True

    def accepts_renumbered(self, line: bytes) -> bool:
        """True if this would be the next line but for its number, which was changed."""
        _, _, rest = line[_BODY_START:].partition(b",")
        body = b'"number":%d,%b' % (self.number, rest)
        return sha256(self.last_hash + body).hexdigest().encode() == line[_HASH_SLICE]


def read_line(line: bytes) -> AuditLine | None:
    """Decode a line, with or without its newline; None if it is no line of an audit."""
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        return _decode_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def segment_name(number: int) -> str:
    """Return the name of the segment whose first line has this number."""
    return f"audit-{number:012d}.jsonl"


def torn_name(number: int, at: int) -> str:
    """Return the name of the file for bytes that a crash left at this offset of a segment."""
    return f"audit-{number:012d}-{at}.torn"


def first_number(name: str) -> int:
    """Return the number of a segment's first line, from its name."""
    match = _SEGMENT_PATTERN.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is not the name of a segment")
    return int(match[1])


def segment_names(names: Iterable[str]) -> list[str]:
    """Filter and sort the names of segments, oldest first."""
    return sorted(filter(_SEGMENT_PATTERN.fullmatch, names), key=first_number)


def segments_of(log: Path) -> list[Path]:
    """Return the segments of one log, oldest first."""
    return [log / name for name in segment_names(path.name for path in log.iterdir())]


def logs_of(folder: Path) -> list[Path]:
    """Return the folders of all logs: one per process that wrote concurrently with others."""
    if not folder.is_dir():
        return []
    return sorted(
        (path for path in folder.iterdir() if _LOG_PATTERN.fullmatch(path.name)), key=lambda path: int(path.name)
    )


class BadKey(ValueError):
    """The file is no public key; the message is one line that names the fix."""


class AuditSigner:
    """Signs checkpoints with the folder's key, which is created readable by its owner only if there is none."""

    def __init__(self, folder: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (
            Ed25519PrivateKey,
        )  # lazy: commands that never sign

        self._key = Ed25519PrivateKey.from_private_bytes(load_or_create_key(folder / KEY_FILE))
        self.public = AuditPublicKey(self._key.public_key().public_bytes_raw())
        _write_if_different(folder / PUBLIC_FILE, self.public.pem())

    def sign(self, purpose: SignaturePurpose, checkpoint: Checkpoint) -> Checkpoint:
        """Return the checkpoint with its signature."""
        signature = base64.b64encode(self._key.sign(_signed_bytes(purpose, checkpoint))).decode()
        return msgspec.structs.replace(checkpoint, signature=signature)


class AuditPublicKey:
    """Verifies the hall's signatures."""

    def __init__(self, raw: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # lazy: as in AuditSigner

        self._raw = raw
        self._key = Ed25519PublicKey.from_public_bytes(raw)

    def verify(self, purpose: SignaturePurpose, checkpoint: Checkpoint) -> bool:
        """True if the signature is by this key, for this purpose and position."""
        from cryptography.exceptions import InvalidSignature  # lazy: as in AuditSigner

        try:
            self._key.verify(base64.b64decode(checkpoint.signature, validate=True), _signed_bytes(purpose, checkpoint))
        except (InvalidSignature, binascii.Error, ValueError):
            return False
        return True

    def pem(self) -> str:
        """Return the key as PEM."""
        return _PEM_TEMPLATE.format(base64.b64encode(_DER_PREFIX + self._raw).decode())


def read_public_key(path: Path) -> AuditPublicKey:
    """Return the key in a file; raises BadKey."""
    try:
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        raise BadKey(f"{path} cannot be read; give a copy of {PUBLIC_FILE} with --key") from None
    public = parse_public_key(text)
    if public is None:
        raise BadKey(f"{path} is no Ed25519 public key; give a copy of {PUBLIC_FILE} with --key")
    return public


def parse_public_key(text: str) -> AuditPublicKey | None:
    """Return the key in a PEM text; None if there is none."""
    with contextlib.suppress(binascii.Error, ValueError, IndexError):
        raw = base64.b64decode("".join(text.split("-----")[2].split()), validate=True)
        if len(raw) == len(_DER_PREFIX) + _KEY_BYTES and raw.startswith(_DER_PREFIX):
            return AuditPublicKey(raw[len(_DER_PREFIX) :])
    return None


def public_key_of(path: Path) -> AuditPublicKey | None:
    """Return the public half of the signing key in this file; None if there is no such key."""
    try:
        key = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):  # the folder may be a file
        return None
    if len(key) != _KEY_BYTES:
        return None
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # lazy: as in AuditSigner

    return AuditPublicKey(Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw())


def _signed_bytes(purpose: SignaturePurpose, checkpoint: Checkpoint) -> bytes:
    """Return the bytes to sign: purpose and position, so that a signature cannot be reused for anything else."""
    stored = " stored" if checkpoint.stored else ""
    position = f"{checkpoint.log} {checkpoint.number} {checkpoint.before} {checkpoint.time!r}"
    return f"toolhall audit {purpose} {position}{stored}".encode()


def _write_if_different(path: Path, text: str) -> None:
    """Write the file unless it has this content already; the signing key decides what the public key is."""
    if path.exists() and path.read_text("ascii", errors="replace") == text:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


_decode_checkpoint = msgspec.json.Decoder(Checkpoint).decode


def append_to_witness(disk: Disk, folder: Path, checkpoints: Iterable[Checkpoint]) -> None:
    """Append checkpoints whose lines are synced already: the witness never knows more than the log."""
    disk.append(folder / WITNESS_FILE, _encode_lines(list(checkpoints)))


class Witness(msgspec.Struct, frozen=True):
    """The content of a witness file: checkpoints by log and number, and how many lines are unreadable."""

    seen: dict[str, dict[int, Checkpoint]]
    unreadable: int = 0


def read_witness(path: Path) -> Witness:
    """Read the file; a line that a crash or a power loss damaged is counted and skipped."""
    seen: dict[str, dict[int, Checkpoint]] = {}
    unreadable = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            checkpoint = read_witness_line(line)
            if checkpoint is None:
                unreadable += 1
                continue
            seen.setdefault(checkpoint.log, {})[checkpoint.number] = checkpoint
    return Witness(seen, unreadable)


def read_witness_line(line: bytes) -> Checkpoint | None:
    """Decode a line of the witness; None if it is damaged."""
    try:
        return _decode_checkpoint(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
