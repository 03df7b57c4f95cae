"""One frozen configuration, from `toolhall.toml` and `TOOLHALL_...` variables; nothing below imports this."""

import contextlib
import difflib
import os
import tomllib
from collections.abc import Generator, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import msgspec

from toolhall.accounts.providers import ProviderSettings
from toolhall.pipeline.ladder import Steps
from toolhall.pipeline.limit import Rate
from toolhall.runners.hub.line import MOST_BYTES

FILE_NAME = "toolhall.toml"
_PREFIX = "TOOLHALL_"

_SECRETS = ("oxp_secret", "vault_key")

_Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class Issuer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who signs tokens that are good here; `name` begins the ids of its callers."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
    issuer: str
    jwks_url: str | None = None
    audience: str | None = None  # what its tokens must name instead of `resource`


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting, with the default that suits one person on one machine."""

    name: str = "toolhall"
    instructions: str | None = None
    profile: Literal["local", "server"] = "local"
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8000
    public_url: str | None = None
    data: str | None = None
    page_size: _Count = 100
    search: bool = False
    pinned: tuple[str, ...] = ()
    calls_per_second: _Positive = 50_000
    call_burst: Annotated[float, msgspec.Meta(ge=1)] = 50_000
    tool_limit: Rate | None = None
    pair_limit: Rate | None = None
    costs: dict[str, _Positive] = {}
    max_concurrency: _Count = 256
    call_timeout: _Positive = 60
    max_body_bytes: _Count = 1024 * 1024
    max_output_bytes: _Count = 1024 * 1024
    threads: _Count = 32
    allowed_hosts: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    audit_days: Annotated[int, msgspec.Meta(ge=0)] = 0
    levels: dict[str, Annotated[int, msgspec.Meta(ge=0, le=10)]] = {}
    steps: Steps = Steps()
    cedar: str | None = None
    issuers: tuple[Issuer, ...] = ()
    resource: str | None = None
    oxp_secret: str | None = None
    allow_anonymous: bool = False
    public_metrics: bool = False
    egress_allow: tuple[str, ...] = ()
    vault_key: str | None = None
    providers: dict[str, ProviderSettings] = {}
    accept_credentials: tuple[str, ...] = ()
    idempotent: tuple[str, ...] = ()

    @property
    def max_frame_bytes(self) -> int:
        """Of a WebSocket: results of tool servers come over it, too, and they grow when they are written as text."""
        return max(self.max_body_bytes, MOST_BYTES, 2 * self.max_output_bytes + 65_536)

    def __repr__(self) -> str:
        shown = {name: "***" if name in _SECRETS and value else value for name, value in _fields(self)}
        return f"Config({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def _fields(config: Config) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(config, name)) for name in config.__struct_fields__)


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


def stated_in(path: Path | None) -> tuple[str, ...]:
    """The settings that a file names, or none without a file; raises BadConfig."""
    return () if path is None else tuple(_read(path))


_overrides: ContextVar[Mapping[str, Any]] = ContextVar("overrides", default=MappingProxyType({}))


@contextlib.contextmanager
def overriding(settings: Mapping[str, Any]) -> Generator[None, None, None]:
    """Meanwhile every hall that is made has these settings, whatever its own configuration says.

    The command line uses it while it loads a target: a hall in a target is open before anybody else could change it.
    """
    before = _overrides.set(settings)
    try:
        yield
    finally:
        _overrides.reset(before)


def overridden(config: Config) -> Config:
    """The configuration with the settings that `overriding` names; a host that is named is also answered for."""
    settings = dict(_overrides.get())
    if not settings:
        return config
    if (host := settings.get("host")) is not None:
        hosts = settings.get("allowed_hosts", config.allowed_hosts)
        settings["allowed_hosts"] = tuple(dict.fromkeys((*hosts, f"[{host}]" if ":" in host else host)))
    return msgspec.structs.replace(config, **settings)


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
        name = _PREFIX + field.name.upper()
        try:
            if (value := environment.get(name)) is not None:
                found[field.name] = _from_text(field.type, value)
            elif field.name in _SECRETS and (file := environment.get(f"{name}_FILE")) is not None:
                found[field.name] = Path(file).read_text("utf-8").strip()
        except msgspec.DecodeError as error:
            raise BadConfig(f"{name} is not valid JSON: {error}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise BadConfig(f"{name}_FILE cannot be read: {error}") from None
    return found


def _from_text(kind: Any, value: str) -> Any:
    """A list of words is separated by commas; what has parts of its own is JSON."""
    if kind == tuple[str, ...]:
        return tuple(filter(None, map(str.strip, value.split(","))))
    return msgspec.json.decode(value) if _has_parts(kind) else value


def _has_parts(kind: Any) -> bool:
    if get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return True
    return get_origin(kind) is not Annotated and any(map(_has_parts, get_args(kind)))


def _refuse_unknown(settings: dict[str, Any], file: Path) -> None:
    _refuse_others(settings, Config, str(file), "")
    for number, issuer in enumerate(_listed(settings.get("issuers"))):
        _refuse_others(issuer, Issuer, str(file), f"issuers[{number}].")
    for name, provider in _named(settings.get("providers")):
        _refuse_others(provider, ProviderSettings, str(file), f"providers.{name}.")
    _refuse_others(settings.get("steps"), Steps, str(file), "steps.")


def _refuse_others(given: object, kind: type[msgspec.Struct], file: str, place: str) -> None:
    """Raise BadConfig for a name that is none, with the nearest that is."""
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key in given if isinstance(given, dict) else ():
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {place + near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise BadConfig(f"{file}: there is no setting {place + key!r}{hint}")


def _listed(given: object) -> list[object]:
    return given if isinstance(given, list) else []


def _named(given: object) -> list[tuple[str, object]]:
    return list(given.items()) if isinstance(given, dict) else []
