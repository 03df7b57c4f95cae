"""Builds the hall of a command: `build_app` from targets, `load_app` with its stored registrations for serving."""

import asyncio
import gc
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolhall.app import Toolhall
from toolhall.app.data_dir import OpenOptions, stdio_open_options
from toolhall.app.setting_rows import Deployment
from toolhall.auth.profiles import BadAuthSettings
from toolhall.authoring.declaration import BadDeclaration
from toolhall.cli.errors import EXIT_CONFIG, CommandError, UsageError
from toolhall.cli.output import YELLOW, note, pluralize, stdout_to_stderr, styled, visible
from toolhall.cli.progress import show_spinner
from toolhall.cli.targets import load_targets
from toolhall.cli.upstream_files import SettingsFile, UpstreamFile, follow_files, give_upstreams, upstreams_of
from toolhall.config import FILE_NAME, BadConfig, Config, SettingOrigin, overriding
from toolhall.dialects.findings import BadDocument
from toolhall.model.names import matches_any
from toolhall.pipeline.verify import Approver
from toolhall.registration.records import DefinitionDocument
from toolhall.registry.registry import Conflict
from toolhall.schema.cost import BadSchema
from toolhall.stores.common import StoreFailed
from toolhall.stores.file_lock import WorkerRole

if TYPE_CHECKING:
    from toolhall.server.process import ServeConfig

MAX_WARNINGS = 10
_GC_THRESHOLD = (700, 10, 10)  # Python's own
_READ_ONLY_REASON = (
    "several processes serve this hall, and while they do its tools stay as they are (keys, grants and approvals can be"
    " changed); to change its tools, serve it with --workers 1"
)
_NO_OVERRIDES: Mapping[str, Any] = {}


def build_app(
    targets: Sequence[str],
    config: Config,
    approver: Approver | None = None,
    overrides: Mapping[str, Any] = _NO_OVERRIDES,
    *,
    served: bool = False,
    examples: bool = True,
) -> Toolhall:
    """A hall with every tool of the targets; if one of them is a Toolhall, that one with the other tools added.

    `overrides` are the settings that the command line states; they also apply to an author's own Toolhall. Only a hall
    that is `served` takes files that list servers. Without targets it has the `examples`, or nothing.
    """
    with stdout_to_stderr(), show_spinner("Loading tools"):
        with overriding(overrides):
            loaded = load_targets(targets) if targets or examples else []
        halls = [each for each in loaded if isinstance(each, Toolhall)]
        if len({id(hall) for hall in halls}) > 1:
            raise UsageError("the targets hold more than one Toolhall object; serve one of them")
        documents = [each for each in loaded if isinstance(each, DefinitionDocument)]
        files = [each for each in loaded if isinstance(each, UpstreamFile)]
        if files and not served:
            raise UsageError(
                f"{files[0].path} lists servers, which a running hall calls: 'toolhall serve {files[0].path}', and then"
                " this command with --url"
            )
        others = [each for each in loaded if not isinstance(each, Toolhall | DefinitionDocument | UpstreamFile)]
        try:
            if halls:
                hall = halls[0]
                hall.add(*others)
                if approver is not None:
                    hall.ask_through(approver)
            else:
                hall = Toolhall(*others, config=config, approver=approver)
            hall.propose(*documents)
            for problem in give_upstreams(hall, files):
                note(f"{styled('warning:', YELLOW, sys.stderr)} {problem}")
            follow_files(hall, files)
        except (BadDeclaration, BadSchema, Conflict) as error:
            raise CommandError(str(error)) from None
        except (BadConfig, BadAuthSettings) as error:
            raise CommandError(str(error), EXIT_CONFIG) from None
        except TypeError as error:  # a Toolkit whose constructor needs arguments
            raise CommandError(f"{error}; serve an instance instead: file.py:NAME") from None
        return hall


def warn_undocumented(hall: Toolhall) -> None:
    """Warn of tools without a docstring, at most ten by name."""
    for warning in hall.undocumented[:MAX_WARNINGS]:
        note(f"{styled('warning:', YELLOW, sys.stderr)} {visible(warning)}")
    if (more := len(hall.undocumented) - MAX_WARNINGS) > 0:
        note(f"{styled('warning:', YELLOW, sys.stderr)} {pluralize(more, 'more tool')} without a docstring")


def warn_unmatched_levels(hall: Toolhall) -> None:
    """Warn of patterns in the setting `levels` that match no tool: they have no effect, which is easy to overlook."""
    ids = {str(entry.tool.id) for entry in hall.registry.snapshot.entries} | {
        record.id for record in hall.registration.all_records
    }
    unmatched = [glob for glob in hall.config.levels if not any(matches_any((glob,), each) for each in ids)]
    if not unmatched:
        return
    from difflib import get_close_matches  # lazy: only for a pattern that is wrong

    names = sorted({each.rpartition("@")[0] for each in ids})
    for glob in unmatched[:MAX_WARNINGS]:
        tail = glob.partition("@")[0].casefold()
        near = [name for name in names if name.casefold().endswith(f".{tail}")] or get_close_matches(glob, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "; write it as TOOLKIT.TOOL, and * for any"
        note(f"{styled('warning:', YELLOW, sys.stderr)} {visible(f'levels: no tool here matches {glob!r}{hint}')}")
    if (more := len(unmatched) - MAX_WARNINGS) > 0:
        note(f"{styled('warning:', YELLOW, sys.stderr)} levels: {more} more match no tool here")


def load_app(serve_config: "ServeConfig", approver: Approver | None = None) -> Toolhall:
    """Build the hall of a ServeConfig and open its data folder; call it in the process that serves."""
    gc.disable()  # nothing of this is garbage, and with thousands of tools collections cost much
    try:
        return _load_app(serve_config, approver)
    finally:
        gc.enable()
        restore_collector()


def restore_collector() -> None:
    """Let the garbage collector run as often as Python does by default: this process is going to live long."""
    gc.set_threshold(*_GC_THRESHOLD)


def _load_app(serve_config: "ServeConfig", approver: Approver | None) -> Toolhall:
    from toolhall.server.process import clear_secret_env  # lazy: only a process that serves

    hall = build_app(
        serve_config.targets,
        serve_config.config,
        approver,
        serve_config.overrides,
        served=True,
        examples=serve_config.examples,
    )
    _follow_settings(hall, serve_config)
    clear_secret_env()
    hall.deployment = Deployment(_origins_for(hall, serve_config), serve_config.workers)
    if not serve_config.sibling:  # the first worker has printed it
        warn_undocumented(hall)
    try:
        if serve_config.workers > 1 and hall.config.data is None:
            raise CommandError(
                "several workers share keys, grants and approvals by a data folder, and the target's Toolhall has none:"
                " name one with --data, set data in its Config(...), or use --workers 1",
                EXIT_CONFIG,
            )
        _open_registry(hall, _open_options(serve_config, hall))
        if serve_config.workers > 1:
            _check_can_be_shared(hall)
        if not serve_config.sibling:
            warn_unmatched_levels(hall)
        if not serve_config.stdio:  # over stdio the parent process is the user
            _check_credentials_exist(hall)
    except BaseException:
        hall.close()
        raise
    return hall


def _follow_settings(hall: Toolhall, serve_config: "ServeConfig") -> None:
    """Read the upstreams of the settings file again when it changes, also one that is written only after the start.

    An author's own Toolhall has its own settings.
    """
    origin = serve_config.origins.get("upstreams")
    if hall.config is not serve_config.config or (origin is not None and origin.source != "file"):
        return
    where = (origin.where if origin is not None else serve_config.file) or FILE_NAME
    if origin is not None and where != FILE_NAME:  # named by --config: say where they are from
        hall.replace_upstreams(FILE_NAME, [])
        hall.replace_upstreams(where, upstreams_of(hall.config, where, local=hall.config.profile == "local"))
    follow_files(hall, [SettingsFile(where)])


def _check_can_be_shared(hall: Toolhall) -> None:
    """Raise CommandError for upstreams that several processes cannot call: children and sessions belong to one."""
    if not hall.has_upstreams:
        return
    listed = [each.upstream for each in hall.upstreams.listed()]
    single = [each.name for each in listed if each.settings.command is not None or each.settings.share == "session"]
    if single:
        raise CommandError(
            f"several workers cannot share processes and sessions of upstreams ({', '.join(single[:MAX_WARNINGS])}):"
            " use --workers 1, or serve these in a hall of their own, and name that here as an upstream by its URL",
            EXIT_CONFIG,
        )


def _check_credentials_exist(hall: Toolhall) -> None:
    """Raise CommandError if every request needs a credential and no credential exists."""
    if hall.config.profile == "server" and not hall.security.auth.accepts_credentials():
        folder = hall.config.data or "DIR"
        raise CommandError(
            f"profile 'server' needs a credential and there is none: make one with 'toolhall key create NAME --data"
            f" {folder}', or set issuers or oxp_secret in toolhall.toml",
            EXIT_CONFIG,
        )


def _origins_for(hall: Toolhall, serve_config: "ServeConfig") -> dict[str, SettingOrigin]:
    """The origins of a hall's settings; an author's own Toolhall has only the stated ones from the command line."""
    origins = serve_config.origins
    if hall.config is serve_config.config:
        return origins
    return {name: origins[name] for name in serve_config.stated if name in origins}


def _open_options(serve_config: "ServeConfig", hall: Toolhall) -> OpenOptions:
    """How this process opens the data folder.

    Several servers of one project share its default folder; all but the first leave the registered tools alone, and
    code in it is not held to its versions. A folder that was named has one server, which can change its tools.
    """
    unnamed = serve_config.unnamed and hall.config.data == serve_config.config.data
    if serve_config.stdio:
        return stdio_open_options(serve_config.dialect, enforce_versions=not unnamed)
    if serve_config.workers == 1:
        return OpenOptions(role="peer", tools_optional=unnamed, enforce_versions=not unnamed)
    role: WorkerRole = "sibling" if serve_config.sibling else "first"
    return OpenOptions(
        role=role, tools_optional=unnamed, enforce_versions=not unnamed, read_only_reason=_READ_ONLY_REASON
    )


def _open_registry(hall: Toolhall, options: OpenOptions) -> None:
    try:
        with show_spinner("Opening the registry"):
            asyncio.run(hall.open(options, enter=False))  # toolkits are entered in the loop that serves
    except StoreFailed as failed:
        raise CommandError(str(failed)) from None
    except BadDocument as bad:
        for finding in bad.findings[1:]:
            note(f"  {visible(str(finding))}")
        raise CommandError(f"this may not be served: {visible(bad.findings[0].fix)}") from None
    waiting = [record for record in hall.registration.all_records if record.state == "quarantined"]
    upstreams = sorted({record.origin_detail for record in waiting if record.origin == "upstream"})
    if upstreams:
        note(
            f"definitions of {pluralize(len(upstreams), 'upstream')} wait for a look: "
            f"'toolhall upstream review {visible(upstreams[0])}'"
        )
    quarantined = [record.id for record in waiting if record.origin != "upstream"]
    if quarantined:
        note(
            f"{pluralize(len(quarantined), 'tool')} quarantined, such as {visible(quarantined[0])}: "
            "'toolhall tool show ID', then 'toolhall tool activate ID'"
        )
