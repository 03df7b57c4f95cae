"""Upstreams, servers of somebody else whose tools a hall offers: UpstreamSettings, UpstreamStatus, UpstreamView.

The settings are checked when they are constructed: a ValueError (from JSON or TOML, a `msgspec.ValidationError`) names
the part and what to write instead, and never quotes a value that may be a secret.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

import msgspec

from toolhall.model.json import JsonObject
from toolhall.model.names import READ_TOOL, SEARCH_TOOL, name_problem
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret, is_secret_name, looks_secret

Share: TypeAlias = Literal["caller", "session", "hall"]
UpstreamAuth: TypeAlias = Literal["none", "oauth", "client_credentials"]
OnChange: TypeAlias = Literal["keep", "hold", "follow"]
UpstreamState: TypeAlias = Literal["new", "connecting", "ready", "away", "refused", "waiting", "off"]
UpstreamSource: TypeAlias = Literal["file", "store", "command line"]

MAX_NAME_LENGTH = 40  # published names are at most 64 long, and the tool's own name stands after it
MAX_HEADERS = 32
MAX_VARIABLES = 128
MAX_ARGUMENTS = 256
MAX_PATTERNS = 1_000  # of `only`, `except` and `rename`
MAX_TEXT = 8_192  # of one value
MAX_URL = 2_048
HIDDEN = "***"
_KEY = re.compile(r"(?i)(?:^|[_-])key$")
_MIN_UNNAMED_SECRET = 20  # shorter ones would be redacted from ordinary text
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}")
_RESERVED = frozenset({SEARCH_TOOL.toolkit.casefold(), READ_TOOL.toolkit.casefold()})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")  # RFC 9110, 5.1
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}")
_SECRET = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_.-]{0,127})\}")
_TOO_LONG = f"is longer than {MAX_TEXT} characters"
# Headers that the client writes itself; a second one would be another message than the one that was meant.
_OWN_HEADERS = frozenset(
    [
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "origin",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
_OWN_HEADER_PREFIX = "mcp-"
_ONLY_URL = ("headers", "auth", "transport")
ONLY_COMMAND = ("args", "env", "cwd", "max_memory", "start")


class UpstreamSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True,
                       rename={"except_": "except"}):  # fmt: skip
    """One upstream as the operator describes it: an MCP server by `url` or by `command`.

    The fields are stored data: they must not be renamed. Values of `headers` and `env` may hold `${secret:NAME}`.
    """

    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    transport: Literal["auto", "http", "sse"] = "auto"
    headers: dict[str, str] = {}
    auth: UpstreamAuth | None = None  # None: decided by what the upstream answers
    share: Share | None = None  # None: `caller`, or `hall` for a command in the profile `local`
    only: tuple[str, ...] = ()
    except_: tuple[str, ...] = ()
    rename: dict[str, str] = {}
    level: Annotated[int, msgspec.Meta(ge=0, le=10)] | None = None
    on_change: OnChange = "keep"
    trusted: bool = False
    required: bool = False
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    start: Literal["called", "always"] = "called"
    lenient: bool = False
    max_sessions: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 32
    max_memory: Annotated[int, msgspec.Meta(ge=1)] | None = None  # MiB
    instructions: bool = False
    off: bool = False

    def __post_init__(self) -> None:
        problem = next(_problems(self), None)
        if problem is not None:
            raise ValueError(problem)

    @property
    def kind(self) -> Literal["mcp"]:
        """What the upstream speaks."""
        return "mcp"

    @property
    def target(self) -> str:
        """The URL, or the command with its arguments, for people: without query, user or secrets."""
        return shown_url(self.url) if self.url is not None else " ".join((self.command or "", *shown_args(self.args)))

    @property
    def header_secrets(self) -> tuple[str, ...]:
        """The names of the secrets in `headers`, which every tool of the upstream requires."""
        return _secret_names(self.headers)

    @property
    def env_secrets(self) -> tuple[str, ...]:
        """The names of the secrets in `env`; their values are the hall's."""
        return _secret_names(self.env)

    @property
    def literal_secrets(self) -> tuple[Secret, ...]:
        """Values of `headers` and `env` that stand there as they are and may be credentials, to be redacted.

        Of `Bearer abc` also `abc`. A short value whose name says nothing, such as a region, is no credential.
        """
        return tuple(
            Secret(text)
            for name, value in (*self.headers.items(), *self.env.items())
            if "${" not in value and (names_secret(name) or len(value) >= _MIN_UNNAMED_SECRET)
            for text in dict.fromkeys((value, value.rpartition(" ")[2]))
            if len(text) >= MIN_SECRET_LENGTH
        )

    def effective_share(self, *, local: bool) -> Share:
        """Who shares a session: as stated, else `hall` for a command in the profile `local`, else `caller`."""
        return self.share or ("hall" if local and self.command is not None else "caller")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in shown_settings(self).items())
        return f"UpstreamSettings({shown})"


class UpstreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an upstream now; times are seconds since 1970."""

    name: str
    state: UpstreamState
    reason: str | None = None  # why it is not ready, with what to do about it
    revision: str | None = None
    era: Literal["legacy", "modern"] | None = None
    server_name: str | None = None
    server_version: str | None = None
    since: float | None = None  # of the state
    sessions: int = 0
    children: int = 0
    restarts: int = 0  # of children
    syncs: int = 0
    last_sync: float | None = None
    next_try: float | None = None
    lost_calls: int = 0
    parked_calls: int = 0  # that wait for a person now


class UpstreamListing(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one sync fetched, all pages, as the upstream wrote it."""

    tools: tuple[JsonObject, ...] = ()
    resources: tuple[JsonObject, ...] = ()
    templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()
    server_name: str | None = None
    server_version: str | None = None
    instructions: str | None = None
    revision: str
    completes: bool = False  # whether the server completes arguments of prompts and variables of templates
    shared: bool = True  # False: the list may be another one for another user


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """A server of somebody else that the hall calls, and who described it."""

    name: str  # also of its toolkit
    settings: UpstreamSettings
    source: UpstreamSource
    where: str = ""  # the file, or who added it
    missing: tuple[str, ...] = ()  # variables of its file that are not set: it waits, and nothing reaches out to it
    named_by_person: bool = False  # at this machine, in the profile `local`: the first sight of a tool is the look


class UpstreamView(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream as it is shown to whoever manages the hall: settings, state, and how many tools it has."""

    upstream: Upstream
    status: UpstreamStatus
    tools: int = 0  # that are served now
    waiting: int = 0  # definitions that somebody must look at before they are served


def upstream_name_problem(name: object) -> str | None:
    """Why this cannot be the name of an upstream, or None."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        allowed = f"1 to {MAX_NAME_LENGTH} of the letters A-Z a-z, digits, _ and -, beginning with a letter or digit"
        return f"{name!r:.80} is not a name of an upstream: use {allowed}"
    if name.casefold() in _RESERVED:
        return f"{name!r} is the name of a built-in toolkit; give the upstream another one"
    return None


def fill_secrets(text: str, secrets: Mapping[str, Secret]) -> str:
    """A value of `headers` or `env` with each `${secret:NAME}` replaced; raises KeyError with a missing name."""
    return _SECRET.sub(lambda found: secrets[found[1]].reveal(), text)


def shown_settings(settings: UpstreamSettings) -> JsonObject:
    """The settings that are not defaults, for people: values of headers and variables only as names of secrets."""
    shown: JsonObject = msgspec.to_builtins(settings)
    if settings.url is not None:
        shown["url"] = shown_url(settings.url)
    if settings.args:
        shown["args"] = shown_args(settings.args)
    for part in ("headers", "env"):
        if part in shown:
            shown[part] = {name: _shown_value(value) for name, value in shown[part].items()}
    return shown


def shown_url(url: str) -> str:
    """The URL without its user, and without the values of its query."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return HIDDEN
    query = f"?{HIDDEN}" if parts.query else ""
    return f"{parts.scheme}://{host}{parts.path}{query}"


def shown_args(args: tuple[str, ...]) -> list[str]:
    """The arguments of a command without those that an option such as `--token` names."""
    shown: list[str] = []
    hide = False
    for each in args:
        name, equals, _ = each.partition("=")
        if hide and not each.startswith("-"):
            shown.append(HIDDEN)
            hide = False
            continue
        hide = not equals and each.startswith("-") and names_secret(each)
        is_url = each.startswith(("http://", "https://"))
        shown.append(shown_url(each) if is_url else f"{name}={HIDDEN}" if equals and names_secret(name) else each)
    return shown


def names_secret(name: str) -> bool:
    """Whether the name of a header, a variable or an option suggests a credential: `X-Key`, `--api-key`, `TOKEN`."""
    return looks_secret(name) or is_secret_name(name) or bool(_KEY.search(name))


def _shown_value(text: str) -> str:
    names = _SECRET.findall(text)
    return " ".join(f"${{secret:{name}}}" for name in names) if names else HIDDEN


def _secret_names(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in values.values() for name in _SECRET.findall(text)))


def _problems(settings: UpstreamSettings) -> Iterator[str]:
    """What is wrong with the settings, the most important first; never with a value in it."""
    if (settings.url is None) == (settings.command is None):
        stated = "both are stated" if settings.url is not None else "neither is stated"
        yield f"an upstream has either url or command; {stated}"
        return
    foreign = ONLY_COMMAND if settings.url is not None else _ONLY_URL
    for part in foreign:
        default = next(field.default for field in msgspec.structs.fields(settings) if field.name == part)
        value = getattr(settings, part)
        if value and value != default:
            other = "command" if settings.url is not None else "url"
            yield f"{part} belongs to an upstream with {other}; leave it out"
    if settings.url is not None:
        yield from _url_problems(settings.url)
        yield from _header_problems(settings)
    else:
        yield from _command_problems(settings)
    if settings.share == "hall" and settings.auth == "oauth":
        yield 'share = "hall" would let people use each other\'s accounts (auth = "oauth"); write share = "caller"'
    yield from _selection_problems(settings)


def _url_problems(url: str) -> Iterator[str]:
    parts = _split_url(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        yield "url is not the address of a server; write it like https://mcp.example.com/mcp"
        return
    if len(url) > MAX_URL:
        yield f"url is longer than {MAX_URL} characters"
    if "@" in parts.netloc:
        yield 'url holds a user or password; leave them out and write headers = {Authorization = "${secret:NAME}"}'
    if "#" in url:
        yield "url has a fragment (#), which no server is told; leave it out"
    if "${" in url:
        yield "url holds ${, and only values of headers and env may; write a secret into headers"


def _split_url(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        is_address = parts.port != 0
    except ValueError:  # such as a port above 65535
        return None
    return parts if is_address else None


def _header_problems(settings: UpstreamSettings) -> Iterator[str]:
    if len(settings.headers) > MAX_HEADERS:
        yield f"headers has more than {MAX_HEADERS} members"
    known: set[str] = set()
    for name, value in settings.headers.items():
        lower = name.lower()
        if not _HEADER.fullmatch(name):
            yield f"headers: {name!r:.80} is not the name of a header"
        elif lower in _OWN_HEADERS or lower.startswith(_OWN_HEADER_PREFIX):
            yield f"headers: {name} is written by the hall itself; leave it out"
        elif lower in known:
            yield f"headers: {name} is there twice"
        elif lower == "authorization" and settings.auth in ("oauth", "client_credentials"):
            yield f'headers: {name} is what auth = "{settings.auth}" writes; leave out one of them'
        elif not _HEADER_VALUE.fullmatch(value) or len(value) > MAX_TEXT:
            yield f"headers: the value of {name} has a character that no header can have, or {_TOO_LONG}"
        yield from _secret_problems(f"headers: the value of {name}", value)
        known.add(lower)


def _command_problems(settings: UpstreamSettings) -> Iterator[str]:
    texts = {"command": settings.command or "", "cwd": settings.cwd or "."}
    texts |= {f"args[{at}]": each for at, each in enumerate(settings.args)}
    for place, text in texts.items():
        if "\0" in text or len(text) > MAX_TEXT:
            yield f"{place} has a null character or {_TOO_LONG}"
        elif not text.strip() and place in ("command", "cwd"):
            yield f"{place} is empty"
    if _SECRET.search(" ".join(settings.args)):
        yield "args holds ${secret:...}, and every process of this machine can read arguments; write it into env"
    if len(settings.args) > MAX_ARGUMENTS or len(settings.env) > MAX_VARIABLES:
        yield f"more than {MAX_ARGUMENTS} args or {MAX_VARIABLES} variables in env"
    for name, value in settings.env.items():
        if not _VARIABLE.fullmatch(name):
            yield f"env: {name!r:.80} is not the name of a variable"
        elif "\0" in value or len(value) > MAX_TEXT:
            yield f"env: the value of {name} has a null character or {_TOO_LONG}"
        yield from _secret_problems(f"env: the value of {name}", value)


def _secret_problems(place: str, value: str) -> Iterator[str]:
    if "${" in _SECRET.sub("", value):
        yield f"{place} holds ${{ without the name of a secret; write ${{secret:NAME}}"


def _selection_problems(settings: UpstreamSettings) -> Iterator[str]:
    """What is wrong with `only`, `except` and `rename`."""
    for part, globs in (("only", settings.only), ("except", settings.except_)):
        if len(globs) > MAX_PATTERNS or not all(0 < len(each) <= 256 for each in globs):
            yield f"{part} is a list of at most {MAX_PATTERNS} names, which may have * in them; no name is empty"
    if len(settings.rename) > MAX_PATTERNS:
        yield f"rename has more than {MAX_PATTERNS} members"
    for new in settings.rename.values():
        if problem := name_problem(new[:256]):
            yield f"rename: {problem}"
    if len({*settings.rename.values()}) < len(settings.rename):
        yield "rename gives one name to two tools"
