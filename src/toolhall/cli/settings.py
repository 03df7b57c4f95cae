"""The settings of one command: file, environment and command line together, and where its data are kept."""

import ipaddress
import os
from pathlib import Path
from typing import Any

import msgspec

from toolhall.cli.failure import EXIT_CONFIG, CommandFailed, WrongUsage
from toolhall.config import BadConfig, Config, load_config


def read_settings(file: Path | None = None, **given: Any) -> Config:
    """The configuration for what was given; a data folder is always named."""
    if file is not None and not file.is_file():
        raise WrongUsage(f"there is no file {file}; leave out --config, or create it")
    try:
        config = load_config(file, **given)
    except BadConfig as error:
        raise CommandFailed(str(error)) from None
    return config if config.data else msgspec.structs.replace(config, data=str(_default_folder()))


def is_shared_folder(config: Config) -> bool:
    """Whether the data are in the folder that nobody named, which all of a person's projects share."""
    return config.data == str(_default_folder())


def data_folder(config: Config) -> Path:
    """The data folder, there and writable."""
    folder = Path(config.data or _default_folder())
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(0, "permission denied")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandFailed(
            f"the data folder {folder} cannot be used ({reason}); choose another with --data or TOOLHALL_DATA"
        ) from None
    return folder


def _default_folder() -> Path:
    # freedesktop.org, base directories: a relative path there is to be ignored.
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "share") / "toolhall"


def refuse_exposure(profile: str, host: str) -> None:
    """In the profile `local` whoever can connect is the person at this machine, so nobody else may."""
    if profile == "local" and not _is_loopback(host):
        raise CommandFailed(
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
