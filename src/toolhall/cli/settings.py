"""Reads the settings of a command and finds its data folder: `read_config`, `default_data_folder`.

`with_example_services` also starts the fake services of the example toolkits while these are served.
"""

import contextlib
import hashlib
import importlib
import ipaddress
import os
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolhall.cli.errors import EXIT_CONFIG, CommandError, UsageError
from toolhall.cli.target_names import EXAMPLES_PACKAGE
from toolhall.config import BadConfig, Config, SettingOrigin, load_config_with_origins
from toolhall.stores.upstreams import has_stored_upstreams

_PROJECT_MARKERS = ("toolhall.toml", "pyproject.toml", ".git")
_LEGACY_FILES = ("toolhall.db", "state.key", "audit")  # a folder with one of these holds the data of a hall
_MAX_NAME = 40


def read_config_with_data(file: Path | None = None, targets: Sequence[str] = (), **given: Any) -> Config:
    """The settings of a command, with the project's data folder if none is named."""
    return with_default_data(read_config(file, **given), targets)


def read_config(file: Path | None = None, **given: Any) -> Config:
    """The settings from the file, the environment and `given`; `data` stays None if none is named."""
    return read_config_with_origins(file, **given)[0]


def read_config_with_origins(file: Path | None = None, **given: Any) -> tuple[Config, dict[str, SettingOrigin]]:
    """The settings like `read_config`, with the origin of each that is stated anywhere."""
    if file is not None and not file.is_file():
        raise UsageError(f"there is no file {file}; leave out --config, or create it")
    try:
        return load_config_with_origins(file, **given)
    except BadConfig as error:
        raise CommandError(str(error)) from None


def with_default_data(config: Config, targets: Sequence[str]) -> Config:
    """The settings with the data folder of the targets' project, if they name none."""
    return config if config.data else msgspec.structs.replace(config, data=str(default_data_folder(targets)))


def ensure_data_folder(config: Config) -> Path:
    """Create the data folder if needed and return it; raises CommandError if it is not writable."""
    folder = Path(config.data or default_data_folder())
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(0, "permission denied")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(
            f"the data folder {folder} cannot be used ({reason}); choose another with --data or TOOLHALL_DATA"
        ) from None
    return folder


def default_data_folder(targets: Sequence[str] = ()) -> Path:
    """The data folder of the project that the first target is in, or without a target the working folder.

    Earlier versions had one folder for all projects. Where that is in use, it stays the folder of all projects, so that
    no key, grant, secret or record is lost.
    """
    base = _base_data_folder()
    if any((base / name).exists() for name in _LEGACY_FILES):
        return base
    project = project_root(_target_folder(targets[0]) if targets else Path.cwd())
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", project.name).strip("-.")[:_MAX_NAME] or "project"
    return base / "projects" / f"{name}-{hashlib.sha256(os.fsencode(project)).hexdigest()[:12]}"


def project_root(start: Path) -> Path:
    """The nearest parent folder with a project marker, or the folder itself; a home folder is no project."""
    start = start.resolve()
    home = Path.home().resolve()
    for folder in (start, *start.parents):
        if folder == home or folder in home.parents:
            break
        if any((folder / marker).exists() for marker in _PROJECT_MARKERS):
            return folder
    return start


def _target_folder(target: str) -> Path:
    """The folder that a target is in; for a module, the working folder."""
    file, colon, _ = target.partition(".py:")
    path = Path(f"{file}.py" if colon else target)
    if path.is_dir():
        return path
    return path.parent if path.suffix and path.is_file() else Path.cwd()


def _base_data_folder() -> Path:
    # freedesktop.org, base directories: a relative path is ignored.
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "share") / "toolhall"


def check_not_exposed(profile: str, host: str) -> None:
    """Raise CommandError for the profile `local` on an address that others can reach: it asks for no credential."""
    if profile == "local" and not _is_loopback(host):
        raise CommandError(
            f"--host {host} can be reached by others, who need a credential each: use --profile server,"
            " or use --host 127.0.0.1",
            EXIT_CONFIG,
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serves_examples(targets: Sequence[str], config: Config) -> bool:
    """Whether the examples are served: they are named, or there is neither a target nor an upstream."""
    if targets:
        return EXAMPLES_PACKAGE in targets
    return not config.upstreams and not has_stored_upstreams(Path(config.data or default_data_folder()))


@contextlib.contextmanager
def with_example_services(config: Config, *, served: bool) -> Generator[Config, None, None]:
    """Yield the settings; if the examples are served, run their fake services meanwhile and add these."""
    if not served:
        yield config
        return
    # Imported by name, like every target: cli lies below examples.
    with importlib.import_module(f"{EXAMPLES_PACKAGE}._fakes.services").run_fake_services(config) as completed:
        yield completed
