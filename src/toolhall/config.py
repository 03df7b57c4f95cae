"""Config: every setting, from `toolhall.toml` and `TOOLHALL_...` variables, frozen once it is loaded.

`load_config` reads the file, then the environment, then the command line; the later source wins. BadConfig names the
setting that cannot be used, where it is stated, and the nearest valid one.
"""

import contextlib
import logging
import os
from collections.abc import Generator, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard, Union, get_args, get_origin

import msgspec

from toolhall.model.upstream import UpstreamSettings, upstream_name_problem
from toolhall.oauth.providers import ProviderSettings
from toolhall.pipeline.limit import Concurrency
from toolhall.pipeline.policy import LevelRequirements
from toolhall.pipeline.rate_buckets import Rate

_log = logging.getLogger(__name__)
FILE_NAME = "toolhall.toml"
_PREFIX = "TOOLHALL_"
_NO_SETTING = "there is no setting"
_MAX_SHOWN_CHARS = 40
_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_CASE_INSENSITIVE = ("log_level",)
SECRET_SETTINGS = ("oxp_secret", "vault_key")
# The old names hold on in files and variables.
_RENAMED = {
    "max_concurrency": ("concurrency", "total"),
    "log_format": ("log", "format"),
    "access_log": ("log", "access"),
}
_CLIENT_SERVERS = "mcpServers"  # as clients write them; read as `upstreams`
LogThreshold: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]
_overrides: ContextVar[Mapping[str, Any]] = ContextVar("overrides", default=MappingProxyType({}))
_Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class Issuer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer whose tokens are accepted; the ids of its callers begin with `name`."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
    issuer: str
    jwks_url: str | None = None
    audience: str | None = None  # the audience that its tokens must have, instead of `resource`
    client_id: str | None = None  # what it calls this hall: people sign in there for the console
    client_secret: str | None = None

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        shown |= {"client_secret": "***"} if self.client_secret else {}
        return f"Issuer({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class LogOutput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How `serve` writes its log, and whether it logs a line for every request."""

    format: Literal["auto", "text", "json"] = "auto"
    access: bool = False


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting; the defaults suit one person on one machine."""

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
    resources_as_tools: bool = False
    calls_per_second: _Positive = 50_000
    call_burst: Annotated[float, msgspec.Meta(ge=1)] = 50_000
    tool_limit: Rate | None = None
    pair_limit: Rate | None = None
    costs: dict[str, _Positive] = {}
    concurrency: Concurrency = Concurrency()
    call_timeout: _Positive = 60
    max_body_bytes: _Count = 1024 * 1024
    max_output_bytes: _Count = 1024 * 1024
    threads: _Count = 32
    allowed_hosts: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    audit_days: Annotated[int, msgspec.Meta(ge=0)] = 0
    levels: dict[str, Annotated[int, msgspec.Meta(ge=0, le=10)]] = {}
    steps: LevelRequirements = LevelRequirements()
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
    upstreams: dict[str, UpstreamSettings] = {}
    log_level: LogThreshold = "warning"
    log: LogOutput = LogOutput()

    def __post_init__(self) -> None:
        for problem in filter(None, map(upstream_name_problem, self.upstreams)):
            raise ValueError(f"upstreams: {problem}")
        if len({name.casefold() for name in self.upstreams}) < len(self.upstreams):
            raise ValueError("upstreams: two names differ only in capital letters; rename one")

    @property
    def access_log(self) -> bool:
        """Whether `serve` logs a line for every request."""
        return self.log.access

    @property
    def max_frame_bytes(self) -> int:
        """The size limit of a WebSocket frame; results of tool servers come in frames and grow as text."""
        from toolhall.execution.remote.replica_transport import MAX_MESSAGE_BYTES  # lazy: the hub dialect

        return max(self.max_body_bytes, MAX_MESSAGE_BYTES, 2 * self.max_output_bytes + 65_536)

    def __repr__(self) -> str:
        shown = {name: "***" if name in SECRET_SETTINGS and value else value for name, value in _fields(self)}
        return f"Config({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def _fields(config: Config) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(config, name)) for name in config.__struct_fields__)


class BadConfig(ValueError):
    """A setting cannot be used; the message names it and the nearest valid one."""


class SettingOrigin(msgspec.Struct, frozen=True):
    """Where a setting is stated: in which file, by which variable, or by which option."""

    source: Literal["default", "file", "environment", "option", "code"]
    where: str | None = None


def load_config(path: Path | None = None, environment: Mapping[str, str] = os.environ, **given: Any) -> Config:
    """Load the settings of the file, overridden by the environment, then by `given` options; raises BadConfig."""
    return load_config_with_origins(path, environment, **given)[0]


def load_config_with_origins(
    path: Path | None = None, environment: Mapping[str, str] = os.environ, **given: Any
) -> tuple[Config, dict[str, SettingOrigin]]:
    """Load the settings like `load_config`, with the origin of each that is stated anywhere."""
    file = path or Path(FILE_NAME)
    settings: dict[str, Any] = {}
    if path or file.exists():
        settings = _with_client_servers(_with_new_names(_read(file)), file, environment)
    for key in settings:
        if unknown := _unknown_name(key, Config):
            raise BadConfig(f"{file}: {unknown}")
    from_environment = _from_environment(environment)
    stated = {key: value for key, value in given.items() if value is not None}
    origins = {key: SettingOrigin("file", str(file)) for key in settings}
    origins |= {key: SettingOrigin("environment", _variable_of(key, environment)) for key in from_environment}
    origins |= {key: SettingOrigin("option", f"--{key}") for key in stated}
    settings |= _with_members_of_file(from_environment, settings, environment) | stated
    settings |= {key: settings[key].lower() for key in _CASE_INSENSITIVE if isinstance(settings.get(key), str)}
    log = settings.get("log")
    if isinstance(log, dict) and isinstance(log.get("format"), str):
        settings["log"] = {**log, "format": log["format"].lower()}
    try:
        return msgspec.convert(settings, Config, strict=False), origins
    except msgspec.ValidationError as error:
        places = {key: origin.where or "" for key, origin in origins.items()}
        raise BadConfig("; ".join(_problems(settings, places)) or f"{file}: {error}") from None


def stated_in(path: Path | None) -> tuple[str, ...]:
    """Return the names of the settings in a file, none without a file; raises BadConfig."""
    return () if path is None else tuple(_read(path))


@contextlib.contextmanager
def overriding(settings: Mapping[str, Any]) -> Generator[None, None, None]:
    """Apply these settings to every hall that is constructed meanwhile, over its own configuration.

    The command line uses it while it loads a target, whose own Toolhall opens its files in the constructor.
    """
    before = _overrides.set(settings)
    try:
        yield
    finally:
        _overrides.reset(before)


def overridden(config: Config) -> Config:
    """Return the configuration with the settings of `overriding`; an overriding host is also an allowed host."""
    settings = dict(_overrides.get())
    if not settings:
        return config
    if (host := settings.get("host")) is not None:
        hosts = settings.get("allowed_hosts", config.allowed_hosts)
        settings["allowed_hosts"] = tuple(dict.fromkeys((*hosts, f"[{host}]" if ":" in host else host)))
    return msgspec.structs.replace(config, **settings)


def _read(file: Path) -> dict[str, Any]:
    import tomllib  # lazy: most commands find no file

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
    found |= _with_new_names(
        {old: environment[_old_variable(old)] for old in _RENAMED if _old_variable(old) in environment}
    )
    for field in msgspec.structs.fields(Config):
        name = _PREFIX + field.name.upper()
        try:
            if (value := environment.get(name)) is not None:
                found[field.name] = _from_text(field.type, value)
            elif field.name in SECRET_SETTINGS and (file := environment.get(f"{name}_FILE")) is not None:
                found[field.name] = Path(file).read_text("utf-8").strip()
        except msgspec.DecodeError as error:
            raise BadConfig(f"{name} is not valid JSON: {_describe_type(field.type)} is wanted ({error})") from None
        except (OSError, UnicodeDecodeError) as error:
            raise BadConfig(f"{name}_FILE cannot be read: {error}") from None
    return found


def _with_new_names(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with members of tables in place of settings that became such; the new name wins."""
    for old, (table, member) in _RENAMED.items():
        if old in settings and isinstance(settings.get(table, {}), dict):
            settings[table] = {member: settings.pop(old)} | settings.get(table, {})
    return settings


def _with_members_of_file(
    found: dict[str, Any], settings: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the environment states; where an old name states one member of a table, the file has the others."""
    for table in {table for table, _ in _RENAMED.values()} & found.keys():
        if _PREFIX + table.upper() not in environment and isinstance(settings.get(table), dict):
            found[table] = settings[table] | found[table]
    return found


def _old_variable(old: str) -> str:
    return _PREFIX + old.upper()


def _variable_of(setting: str, environment: Mapping[str, str]) -> str:
    """Return the variable that states a setting: itself, one of its old names, or the one that names its file."""
    name = _PREFIX + setting.upper()
    old = (_old_variable(each) for each, (table, _) in _RENAMED.items() if table == setting)
    return next((each for each in (name, *old) if each in environment), f"{name}_FILE")


def _with_client_servers(settings: dict[str, Any], file: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings with `mcpServers`, as clients write them, as upstreams; `[upstreams]` wins over them.

    It is a table, or text: JSON, or the path of such a file. A server with a variable that is not set, where no secret
    can stand in for it, is left out with a warning.
    """
    if _CLIENT_SERVERS not in settings:
        return settings
    from toolhall.dialects.client_files.commented_json import BadClientText  # lazy: only with that setting
    from toolhall.dialects.client_files.reader import read_client_document, read_client_file  # lazy: as above

    given = settings.pop(_CLIENT_SERVERS)
    where = f"{file}: {_CLIENT_SERVERS}"
    # The hall's own variables are no business of an upstream; its vault key is among them.
    variables = {name: value for name, value in environment.items() if not name.startswith(_PREFIX)}
    variables["workspaceFolder"] = str(file.parent.absolute())
    try:
        if isinstance(given, str):
            is_json = given.lstrip().startswith("{")
            found = read_client_file(given if is_json else (file.parent / given).read_text("utf-8"), variables)
        else:
            found = read_client_document({_CLIENT_SERVERS: given}, variables)
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{where}: the file that it names cannot be read: {type(error).__name__}") from None
    except BadClientText as bad:
        raise BadConfig(f"{where}: {bad}") from None
    if found is None:
        raise BadConfig(f"{where}: it lists no servers; write a table, JSON text, or the path of a client's file")
    usable: dict[str, Any] = {}
    for server in found.servers:
        if server.settings is None:
            raise BadConfig(f"{where}: {server.key}: {server.problem}")
        for variable in (*server.missing, *server.missing_secrets):
            _log.warning("%s: %s waits: the variable %s is not set", where, server.key, variable)
        if not server.missing:
            usable[server.name] = msgspec.to_builtins(server.settings)
    stated = settings.get("upstreams", {})
    return settings | {"upstreams": usable | stated if isinstance(stated, dict) else stated}


def _from_text(kind: Any, value: str) -> Any:
    """Parse an environment variable: lists are comma-separated or JSON, other composite values are JSON."""
    if kind == tuple[str, ...]:
        try:
            decoded = msgspec.json.decode(value)
        except msgspec.DecodeError:  # such as `[::1]:9000`
            decoded = None
        return decoded if isinstance(decoded, list) else tuple(filter(None, map(str.strip, value.split(","))))
    return msgspec.json.decode(value) if _is_composite(kind) else value


def _is_composite(kind: Any) -> bool:
    if get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return True
    return get_origin(kind) is not Annotated and any(map(_is_composite, get_args(kind)))


def _problems(settings: Mapping[str, Any], origins: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for every invalid setting: where it is stated, what is wanted and what came."""
    for field in msgspec.structs.fields(Config):
        if field.name in settings:
            for path, message in _invalid_parts(field.type, settings[field.name], field.name):
                stated = origins[field.name]
                # The name of a variable or option is the setting's name already.
                names_it = message.startswith(_NO_SETTING) or (
                    path == field.name and stated.startswith((_PREFIX, "--"))
                )
                yield f"{stated}: {message}" if names_it else f"{stated}: {path}: {message}"


def _invalid_parts(kind: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and a message for every invalid part of a value."""
    try:
        msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        inner = [found for part in _parts(kind, value, path) for found in _invalid_parts(*part)]
        inner += _name_problems(kind, value, path)
        if not inner and _not_none(kind) is UpstreamSettings and isinstance(value, dict):  # its own check
            inner = [(path, str(error).partition(" - at `$")[0])]
        yield from inner or [(path, f"{_describe_type(kind)} is wanted, not {_describe_value(value, path)}")]


def _parts(kind: Any, value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    kind = _not_none(kind)
    match value:
        case list() if get_origin(kind) is tuple:
            yield from ((get_args(kind)[0], each, f"{path}[{at}]") for at, each in enumerate(value))
        case dict() if get_origin(kind) is dict:
            yield from ((get_args(kind)[1], each, f"{path}.{name}") for name, each in value.items())
        case dict() if _is_struct(kind):
            fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
            yield from ((fields[name], value[name], f"{path}.{name}") for name in value if name in fields)
        case _:
            return


def _name_problems(kind: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the unknown names in a table, each with the nearest known one, and the missing ones."""
    kind = _not_none(kind)
    if not isinstance(value, dict) or not _is_struct(kind):
        return
    for field in msgspec.structs.fields(kind):
        if field.required and field.encode_name not in value:
            yield f"{path}.{field.name}", f"it is missing; {_describe_type(field.type)} is wanted"
    for name in value:
        if unknown := _unknown_name(name, kind, f"{path}."):
            yield f"{path}.{name}", unknown


def _unknown_name(key: str, kind: type[msgspec.Struct], prefix: str = "") -> str | None:
    """Return the message for an unknown name, with the nearest known one; None if the name is known."""
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    if key in known:
        return None
    import difflib  # lazy: only for a name that is wrong

    near = difflib.get_close_matches(key, known, 1)
    hint = f"; did you mean {prefix + near[0]!r}?" if near else f"; known are {', '.join(known)}"
    return f"{_NO_SETTING} {prefix + key!r}{hint}"


def _describe_type(kind: Any) -> str:
    """Describe the values of a setting in words."""
    kind = _not_none(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _describe_type(arguments[0]) + "".join(map(_describe_bounds, arguments[1:]))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple:
        return (
            'a list of texts, such as ["a", "b"]'
            if arguments[0] is str
            else f"a list, each {_describe_type(arguments[0])}"
        )
    if origin is dict:
        return f"a table of names, each with {_describe_type(arguments[1])}"
    if _is_struct(kind):
        return f"a table with {', '.join(field.encode_name for field in msgspec.structs.fields(kind))}"
    return _TYPE_NAMES.get(kind, "another value")


def _describe_bounds(meta: Any) -> str:
    match meta:
        case msgspec.Meta(ge=minimum, le=maximum) if minimum is not None and maximum is not None:
            return f" from {minimum} to {maximum}"
        case msgspec.Meta(ge=minimum) if minimum is not None:
            return f" of at least {minimum}"
        case msgspec.Meta(gt=below) if below is not None:
            return f" above {below}"
        case msgspec.Meta(pattern=pattern) if pattern is not None:
            return f" that matches {pattern}"
        case _:
            return ""


def _describe_value(value: Any, path: str) -> str:
    """Describe an invalid value; of what may be a secret, only its type."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            may_be_secret = path.startswith(("providers", "upstreams")) or path.endswith("client_secret")
            hidden = path in SECRET_SETTINGS or may_be_secret
            return "this text" if hidden else f"text {msgspec.json.encode(value[:_MAX_SHOWN_CHARS]).decode()}"
        case dict():
            return "a table"
        case list() | tuple():
            return "a list"
        case _:
            return "nothing" if value is None else f"a {type(value).__name__}"


def _is_struct(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _not_none(kind: Any) -> Any:
    """Return an optional type without its None."""
    others = [each for each in get_args(kind) if each is not type(None)]
    return others[0] if get_origin(kind) in (Union, UnionType) and len(others) == 1 else kind
