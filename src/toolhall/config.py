"""One frozen configuration, from `toolhall.toml` and `TOOLHALL_...` variables; nothing below imports this."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_origin

import msgspec

FILE_NAME = "toolhall.toml"
_PREFIX = "TOOLHALL_"

_Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting, with the default that suits one person on one machine."""

    name: str = "toolhall"
    instructions: str | None = None
    profile: Literal["local", "server"] = "local"
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8000
    data: str | None = None
    page_size: _Count = 100
    search: bool = False
    pinned: tuple[str, ...] = ()
    calls_per_second: _Positive = 50_000
    call_burst: Annotated[float, msgspec.Meta(ge=1)] = 50_000
    call_timeout: _Positive = 60
    max_body_bytes: _Count = 1024 * 1024
    max_output_bytes: _Count = 1024 * 1024
    threads: _Count = 32
    allowed_hosts: tuple[str, ...] = ()
    record: tuple[str, ...] = ()


class BadConfig(ValueError):
    """A setting that cannot be used; the message names it and the nearest that can."""


def load_config(path: Path | None = None, environment: Mapping[str, str] = os.environ, **given: Any) -> Config:
    """The file's settings, overridden by the environment, overridden by what was given on the command line."""
    file = path or Path(FILE_NAME)
    settings: dict[str, Any] = {}
    if path or file.exists():
        settings = _read(file)
    settings |= _from_environment(environment)
    settings |= {key: value for key, value in given.items() if value is not None}
    _refuse_unknown(settings, file)
    try:
        return msgspec.convert(settings, Config, strict=False)
    except msgspec.ValidationError as error:
        raise BadConfig(f"{file}: {error}") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise BadConfig(f"there is no file {file}; leave out --config or create it") from None
    except OSError as error:
        raise BadConfig(f"{file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{file} is not valid TOML: {error}") from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(Config):
        value = environment.get(_PREFIX + field.name.upper())
        if value is not None:
            listed = get_origin(field.type) is tuple
            found[field.name] = tuple(filter(None, map(str.strip, value.split(",")))) if listed else value
    return found


def _refuse_unknown(settings: dict[str, Any], file: Path) -> None:
    for key in settings:
        if key not in Config.__struct_fields__:
            near = difflib.get_close_matches(key, Config.__struct_fields__, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(Config.__struct_fields__)}"
            raise BadConfig(f"{file}: there is no setting {key!r}{hint}")
