"""`toolhall lock` and `toolhall verify`: write the digests of tools to a lockfile, and check tools against it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from toolhall.cli.clients.base import RevisionNotSupported, ToolClient, open_tool_client
from toolhall.cli.documents.reader import report_io_errors
from toolhall.cli.documents.writers import open_atomic
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.logs import start_logging
from toolhall.cli.output import note, pluralize, print_json, visible
from toolhall.cli.parameters import SourceParameters
from toolhall.config import Config
from toolhall.contracts.digest import Digests, compute_digests, compute_legacy_digests
from toolhall.contracts.lockfile import (
    Drift,
    DriftKind,
    DuplicateTool,
    Lock,
    build_lock,
    compare_locks,
    lock_document,
    lock_entry,
    read_lock,
    write_lock,
)
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.mcp.protocol import SUPPORTED_VERSIONS
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.tool import Tool


def current_lock(client: ToolClient) -> Lock:
    """The digests of all tools of the source."""
    return _lock_of(_mcp_documents(client), compute_digests)


def current_and_former_locks(client: ToolClient) -> tuple[Lock, Lock]:
    """The digests of all tools of the source, and those that lockfiles of older versions have of them."""
    documents = _mcp_documents(client)
    return _lock_of(documents, compute_digests), _lock_of(documents, compute_legacy_digests)


def _lock_of(documents: list[JsonObject], digest: Callable[[Tool], Digests]) -> Lock:
    try:
        return build_lock(_digests_of(document, digest) for document in documents)
    except DuplicateTool as twice:
        raise CommandError(f"{visible(str(twice))}; rename one of them") from None


def _mcp_documents(client: ToolClient) -> list[JsonObject]:
    """The definitions in the newest MCP revision that the source supports; another revision has other digests."""
    for revision in SUPPORTED_VERSIONS:
        try:
            rendered = client.render(f"mcp@{revision}")
        except RevisionNotSupported:
            continue
        for inexpressible in rendered.refused:
            raise CommandError(f"MCP cannot say {inexpressible.tool}: {inexpressible.reasons[0]}")
        return rendered.documents + client.resources_and_prompts(revision)
    raise CommandError(
        f"{client.where} speaks no revision of MCP that can be read here: {', '.join(SUPPORTED_VERSIONS)}"
    )


def _digests_of(document: Json, digest: Callable[[Tool], Digests]) -> tuple[str, Digests]:
    try:
        # Encoded and decoded, so that it is what a client would get.
        return lock_entry(msgspec.json.decode(encode(document)), digest)
    except BadDocument as bad:
        name = visible(str(document.get("name"))[:128])
        raise CommandError(f"the definition of {name} cannot be read: {visible(bad.message)}") from None


@dataclass(frozen=True)
class LockOptions(SourceParameters):
    """Options of `toolhall lock`.

    Parameters
    ----------
    out
        The file to write.
    """

    out: Annotated[Path, Parameter(alias="-o")] = Path("tools.lock")


_LOCK_DEFAULTS = LockOptions()


def lock(
    target: str | None = None, /, *, options: Annotated[LockOptions, Parameter(name="*")] = _LOCK_DEFAULTS
) -> None:
    """Write the digests of every tool of a target or of a running server to a file; look at the tools first.

    Parameters
    ----------
    target
        file.py, file.py:object, package.module, a folder or definitions.json; the example toolkit when left out.
    """
    start_logging(None)
    with open_tool_client(options, target, Config()) as source:
        found = current_lock(source)
    with report_io_errors(), open_atomic(options.out) as new:
        new.stream.write(write_lock(found))
        new.commit()
    if options.json:
        print_json(lock_document(found))
    else:
        note(
            f"locked {pluralize(len(found), 'tool')} in {options.out}; check them with 'toolhall verify {options.out}'"
        )


_VERIFY_DEFAULTS = SourceParameters()
_DRIFT_TEXT: dict[DriftKind, str] = {
    "added": "it was not there",
    "removed": "it is gone",
    "shown": "what the model reads changed",
    "contract": "what it promises or demands changed",
    "both": "what the model reads and what it promises or demands changed",
}


def verify(
    file: Path,
    target: str | None = None,
    /,
    *,
    options: Annotated[SourceParameters, Parameter(name="*")] = _VERIFY_DEFAULTS,
) -> None:
    """Compare every tool of a target or of a running server with a lock; exit 1 if any is not what it was.

    Parameters
    ----------
    file
        The lock, as 'toolhall lock' wrote it.
    target
        file.py, file.py:object, package.module, a folder or definitions.json; the example toolkit when left out.
    """
    start_logging(None)
    lock = _read_lockfile(file)
    with open_tool_client(options, target, Config()) as source:
        drifts = compare_locks(lock, *current_and_former_locks(source))
    if options.json:
        print_json({"ok": not drifts, "drifts": drifts})
    else:
        for drift in drifts:
            print(_drift_line(drift))
    if drifts:
        raise CommandError(
            f"{pluralize(len(drifts), 'tool')} drifted from {file}; look at each before you lock it anew"
        )
    note(f"{pluralize(len(lock), 'tool')} as locked in {file}")


def _drift_line(drift: Drift) -> str:
    return f"{visible(drift.tool)}: {drift.kind}: {_DRIFT_TEXT[drift.kind]}"


def _read_lockfile(file: Path) -> Lock:
    if file.is_dir() or not file.exists():
        what = "is a folder" if file.is_dir() else "is not there"
        raise UsageError(f"the lock {file} {what}; make one with 'toolhall lock --out FILE'")
    try:
        return read_lock(file.read_bytes())
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from None
    except BadDocument as bad:
        raise CommandError(f"{file}: {visible(bad.message)}") from None
