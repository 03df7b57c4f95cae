"""On-disk format of the audit: hash-chained lines, segment files, signed checkpoints and the witness file.

A line is `{"sha256":"...","number":17,"record":{...}}`. The hash covers the previous line's hash and everything in the
line behind its own, so no line can be changed, removed, added or moved without breaking all that follow. A checkpoint is
an Ed25519 signature under a position of a log. The witness repeats every checkpoint in a small file that should be
copied to where the hall cannot write; it never knows more than the log, whose lines are synced first.
"""

import base64
import binascii
import contextlib
import importlib
import os
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from toolhall.model.call_records import AuditRecord
from toolhall.model.json import encode
from toolhall.stores.audit.disk import Disk
from toolhall.stores.crypto import load_or_create_key

MAX_LINE_BYTES = 64 * 1024  # a record is much shorter; what is longer is none
GENESIS_HASH: Final = b"0" * 64  # the hash before the first line of a log
LineKind: TypeAlias = Literal["record", "head", "checkpoint", "torn", "dropped", "lost"]
_LINE_PREFIX = b'{"sha256":"'
_HASH_END = b'",'
_HASH_SLICE = slice(len(_LINE_PREFIX), len(_LINE_PREFIX) + len(GENESIS_HASH))
_BODY_START = _HASH_SLICE.stop + len(_HASH_END)


class SegmentHeader(msgspec.Struct, frozen=True):
    """The first line of a file: of which log it is, when it was begun, and the hash of the line before."""

    log: str
    time: float
    before: str


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A signature under a place of a log: `before` is the hash before the line with this number.

    `stored` says that the hall's database knew of this audit by then, so that one is missing where there is none.
    """

    log: str
    number: int
    before: str
    time: float
    signature: str = ""
    stored: bool = False


class TornLine(msgspec.Struct, frozen=True):
    """What a crash had left behind the last whole line; it was set aside in this file."""

    file: str
    bytes: int
    time: float


class LostRecords(msgspec.Struct, frozen=True):
    """How many records came while the disk could take none."""

    records: int
    time: float


class AuditLine(msgspec.Struct, frozen=True):
    """One line; it holds exactly one of these, beside its number and its hash."""

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
    """Where a log has come to: the number that its next line gets, and the hash of its last one."""

    __slots__ = ("last_hash", "number")

    def __init__(self, number: int = 0, last_hash: bytes = GENESIS_HASH) -> None:
        self.number = number
        self.last_hash = last_hash

    def encode_line(self, kind: LineKind, value: msgspec.Struct) -> bytes:
        """The next line, with its end."""
        body = b'"number":%d,"%b":%b}' % (self.number, kind.encode(), encode(value))
        self.last_hash = sha256(self.last_hash + body).hexdigest().encode()
        self.number += 1
        return b"".join((_LINE_PREFIX, self.last_hash, _HASH_END, body, b"\n"))

    def encode_records(self, records: Iterable[AuditRecord]) -> bytes:
        """The same for many records; what most of the time goes into."""
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
        """Whether this is the next line, without its end; then the chain goes on behind it."""
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
        """Whether this would be the next line, had nobody changed its number."""
        _, _, rest = line[_BODY_START:].partition(b",")
        body = b'"number":%d,%b' % (self.number, rest)
        return sha256(self.last_hash + body).hexdigest().encode() == line[_HASH_SLICE]


def read_line(line: bytes) -> AuditLine | None:
    """What a line says, with or without its end; None if it is no line of an audit."""
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        return _decode_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


AUDIT_FOLDER = "audit"  # in the data folder
LOCK_FILE = "audit.lock"  # held by the process that writes to a log
LEGACY_FILE = "audit.jsonl"  # in the data folder, of halls that had no chain yet
_SEGMENT_PATTERN = re.compile(r"audit-(\d{12,18})\.jsonl")
_LOG_PATTERN = re.compile(r"[1-9]\d{0,5}")


def segment_name(number: int) -> str:
    """The file whose first line has this number."""
    return f"audit-{number:012d}.jsonl"


def torn_name(number: int, at: int) -> str:
    """Where bytes are set aside that a crash left at this place of a segment."""
    return f"audit-{number:012d}-{at}.torn"


def first_number(name: str) -> int:
    """The number of a segment's first line, as its name says."""
    found = _SEGMENT_PATTERN.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is no segment")
    return int(found[1])


def segment_names(names: Iterable[str]) -> list[str]:
    """Those of segments, the oldest first."""
    return sorted(filter(_SEGMENT_PATTERN.fullmatch, names), key=first_number)


def segments_of(log: Path) -> list[Path]:
    """The files of one log, the oldest first."""
    return [log / name for name in segment_names(path.name for path in log.iterdir())]


def logs_of(folder: Path) -> list[Path]:
    """The folders of all logs: one for each process that wrote at the same time as others."""
    if not folder.is_dir():
        return []
    return sorted(
        (path for path in folder.iterdir() if _LOG_PATTERN.fullmatch(path.name)), key=lambda path: int(path.name)
    )


KEY_FILE = "audit.key"
PUBLIC_FILE = "audit.pub"
SignaturePurpose: TypeAlias = Literal["checkpoint", "dropped"]
# RFC 8410: what every Ed25519 public key begins with in a PEM file.
_DER_PREFIX = bytes.fromhex("302a300506032b6570032100")
_PEM_TEMPLATE = "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n"
_KEY_BYTES = 32


class BadKey(ValueError):
    """This is no public key; the message is one line that says what to do."""


class AuditSigner:
    """Signs with the key of a folder, which is made when there is none; readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        self._key = _ed25519().Ed25519PrivateKey.from_private_bytes(load_or_create_key(folder / KEY_FILE))
        self.public = AuditPublicKey(self._key.public_key().public_bytes_raw())
        _write_if_different(folder / PUBLIC_FILE, self.public.pem())

    def sign(self, purpose: SignaturePurpose, checkpoint: Checkpoint) -> Checkpoint:
        """The mark with its signature."""
        signature = base64.b64encode(self._key.sign(_signed_bytes(purpose, checkpoint))).decode()
        return msgspec.structs.replace(checkpoint, signature=signature)


class AuditPublicKey:
    """Tells whether a mark was signed by the hall."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._key = _ed25519().Ed25519PublicKey.from_public_bytes(raw)
        self._invalid_signature = importlib.import_module("cryptography.exceptions").InvalidSignature

    def verify(self, purpose: SignaturePurpose, checkpoint: Checkpoint) -> bool:
        """Whether the signature is one of this key, for exactly this."""
        try:
            self._key.verify(base64.b64decode(checkpoint.signature, validate=True), _signed_bytes(purpose, checkpoint))
        except (self._invalid_signature, binascii.Error, ValueError):
            return False
        return True

    def pem(self) -> str:
        """As openssl reads it."""
        return _PEM_TEMPLATE.format(base64.b64encode(_DER_PREFIX + self._raw).decode())


def read_public_key(path: Path) -> AuditPublicKey:
    """The key in a file; raises BadKey."""
    try:
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        raise BadKey(f"{path} cannot be read; name a copy of {PUBLIC_FILE} with --key") from None
    public = parse_public_key(text)
    if public is None:
        raise BadKey(f"{path} is no Ed25519 public key; name a copy of {PUBLIC_FILE} with --key")
    return public


def parse_public_key(text: str) -> AuditPublicKey | None:
    """The key in a PEM text; None if there is none."""
    with contextlib.suppress(binascii.Error, ValueError, IndexError):
        raw = base64.b64decode("".join(text.split("-----")[2].split()), validate=True)
        if len(raw) == len(_DER_PREFIX) + _KEY_BYTES and raw.startswith(_DER_PREFIX):
            return AuditPublicKey(raw[len(_DER_PREFIX) :])
    return None


def public_key_of(path: Path) -> AuditPublicKey | None:
    """The public half of the key that signs, which is in this file; None if there is no such key."""
    try:
        key = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):  # something else may be where the folder should be
        return None
    if len(key) != _KEY_BYTES:
        return None
    return AuditPublicKey(_ed25519().Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw())


def _signed_bytes(purpose: SignaturePurpose, checkpoint: Checkpoint) -> bytes:
    """What is signed: a purpose and a place, so that no signature can stand for anything else."""
    stored = " stored" if checkpoint.stored else ""
    return f"toolhall audit {purpose} {checkpoint.log} {checkpoint.number} {checkpoint.before} {checkpoint.time!r}{stored}".encode()


def _write_if_different(path: Path, text: str) -> None:
    """An older copy is replaced only where it differs: whoever has the key can say what its other half is."""
    if path.exists() and path.read_text("ascii", errors="replace") == text:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _ed25519() -> Any:
    """Loading it takes longer than a command that never signs."""
    return importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")


WITNESS_FILE = "audit.checkpoints"
_encode_lines = msgspec.json.Encoder().encode_lines
_decode_checkpoint = msgspec.json.Decoder(Checkpoint).decode


def append_to_witness(disk: Disk, folder: Path, checkpoints: Iterable[Checkpoint]) -> None:
    """Add checkpoints whose lines are on the disk already: a witness never knows more than the log."""
    disk.append(folder / WITNESS_FILE, _encode_lines(list(checkpoints)))


class Witness(msgspec.Struct, frozen=True):
    """What a witness saw: of each log the hash before each checkpoint, and how many lines nobody can read."""

    seen: dict[str, dict[int, Checkpoint]]
    unreadable: int = 0


def read_witness(path: Path) -> Witness:
    """Everything in the file; a line that a crash or a power loss spoiled is counted and passed over."""
    seen: dict[str, dict[int, Checkpoint]] = {}
    unreadable = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            mark = read_witness_line(line)
            if mark is None:
                unreadable += 1
                continue
            seen.setdefault(mark.log, {})[mark.number] = mark
    return Witness(seen, unreadable)


def read_witness_line(line: bytes) -> Checkpoint | None:
    """The checkpoint in a line of the witness; None if nobody can read it."""
    try:
        return _decode_checkpoint(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
