"""Provider: an OAuth provider, built from ProviderSettings and presets; and the errors between a hall and a provider.

No error message repeats text that a provider or a browser sent.
"""

import re
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from toolhall.authoring.declaration import OAUTH_SCOPE
from toolhall.egress.addresses import EgressAllowlist, EgressRefused
from toolhall.egress.urls import parse_url
from toolhall.model.errors import Limited, Refused
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.stores.approvals import CoolingDown

UPSTREAM_PREFIX = "upstream:"  # of the provider names of upstreams; configured names have no colon
_ERROR_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class BadProvider(ValueError):
    """The settings of a provider cannot be used; the message names it and the fix."""


class UnknownProvider(Refused):
    """The settings have no provider of this name."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        if name.startswith(UPSTREAM_PREFIX):
            upstream = name.removeprefix(UPSTREAM_PREFIX)
            super().__init__(f"there is no upstream {upstream!r} with a url; 'toolhall upstream list' shows them")
            return
        listed = f"known are {', '.join(known)}" if known else "none is set up"
        super().__init__(f"there is no provider {name!r} ({listed}); the operator adds it to `providers`")


class LinkFailed(Refused):
    """The account could not be linked; the message is for the person who tried."""

    message = "this link is not good any more: call the tool again to get a new one"


class TooManyLinks(Limited):
    """Too many links of this caller are pending."""

    def __init__(self, refused: CoolingDown) -> None:
        super().__init__(refused.seconds)
        self.message = (
            "too many accounts of this caller wait to be connected; open one of the links,"
            f" or ask again in {refused.seconds:.0f} seconds"
        )
        self.args = (self.message,)


class ProviderRefused(Exception):
    """The provider answered with an OAuth error; a code that is not well-formed is not repeated."""

    def __init__(self, code: object) -> None:
        self.code = code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else "an unknown error"
        super().__init__(f"the provider refuses: {self.code}")


class ProviderUnreachable(Exception):
    """The provider did not give a usable response; the message is for the log. A retry may succeed."""


class AddressRefused(ProviderUnreachable):
    """The hall does not connect to this address; the message names the setting that would allow it."""


class DiscoveryFailed(ProviderUnreachable):
    """The authorization server of an upstream cannot be used; the message is for people, and names the fix."""


TokenAuth: TypeAlias = Literal["basic", "post", "none", "private_key_jwt"]


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for a well-known provider; `prefixes` are parts of scope names that the provider may leave out."""

    issuer: str | None = None
    authorize_url: str | None = None
    token_url: str | None = None
    revoke_url: str | None = None
    device_url: str | None = None
    scopes: tuple[str, ...] = ()
    authorize_params: dict[str, str] = {}
    token_auth: TokenAuth | None = None
    json: bool = False  # it expects JSON where OAuth has a form
    headers: dict[str, str] = {}
    prefixes: tuple[str, ...] = ()


GENERIC = Preset()
PRESETS = {
    "generic": GENERIC,
    "google": Preset(
        issuer="https://accounts.google.com",
        authorize_url="https://accounts.google.com/o/oauth2/v2/auth",
        token_url="https://oauth2.googleapis.com/token",  # noqa: S106 - a URL
        revoke_url="https://oauth2.googleapis.com/revoke",
        device_url="https://oauth2.googleapis.com/device/code",
        # Without both, Google gives a refresh token on the very first consent only.
        authorize_params={"access_type": "offline", "prompt": "consent"},
        token_auth="post",  # noqa: S106 - a method
        prefixes=("https://www.googleapis.com/auth/userinfo.",),
    ),
    "github": Preset(
        issuer="https://github.com/login/oauth",
        authorize_url="https://github.com/login/oauth/authorize",
        token_url="https://github.com/login/oauth/access_token",  # noqa: S106 - a URL
        device_url="https://github.com/login/device/code",
        token_auth="post",  # noqa: S106 - a method
    ),
    "slack": Preset(
        issuer="https://slack.com",
        # The endpoints for tokens of a person; those at /oauth/v2/ give tokens of a bot.
        authorize_url="https://slack.com/oauth/v2_user/authorize",
        token_url="https://slack.com/api/oauth.v2.user.access",  # noqa: S106 - a URL
        token_auth="basic",  # noqa: S106 - a method
    ),
    "microsoft": Preset(
        # No issuer: it names the tenant of whoever signs in. For one tenant, set `issuer` to it.
        authorize_url="https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
        token_url="https://login.microsoftonline.com/common/oauth2/v2.0/token",  # noqa: S106 - a URL
        device_url="https://login.microsoftonline.com/common/oauth2/v2.0/devicecode",
        scopes=("offline_access",),
        token_auth="post",  # noqa: S106 - a method
        prefixes=("https://graph.microsoft.com/",),
    ),
    "notion": Preset(
        authorize_url="https://api.notion.com/v1/oauth/authorize",
        token_url="https://api.notion.com/v1/oauth/token",  # noqa: S106 - a URL
        revoke_url="https://api.notion.com/v1/oauth/revoke",
        authorize_params={"owner": "user"},
        token_auth="basic",  # noqa: S106 - a method
        json=True,
        headers={"Notion-Version": "2025-09-03"},
    ),
    "atlassian": Preset(
        issuer="https://auth.atlassian.com",
        authorize_url="https://auth.atlassian.com/authorize",
        token_url="https://auth.atlassian.com/oauth/token",  # noqa: S106 - a URL
        scopes=("offline_access",),
        authorize_params={"audience": "api.atlassian.com", "prompt": "consent"},
        token_auth="post",  # noqa: S106 - a method
        json=True,
    ),
}
_DISPLAY_NAMES = {name: name.title() for name in PRESETS if name != "generic"} | {
    "github": "GitHub",
    "gitlab": "GitLab",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED_PARAMS = (
    "client_id", "client_secret", "code_challenge", "code_challenge_method", "redirect_uri", "request", "request_uri",
    "resource", "response_mode", "response_type", "scope", "state",
)  # fmt: skip
_URL_SETTINGS = ("issuer", "authorize_url", "token_url", "revoke_url", "device_url")
# A provider may be in a private network or on this machine; the egress client decides whether the hall connects to it.
_PRIVATE_RANGES = EgressAllowlist(
    ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one provider; with a preset, the name and the client credentials are enough."""

    preset: str | None = None
    issuer: str | None = None  # whose metadata names the endpoints
    authorize_url: str | None = None
    token_url: str | None = None
    revoke_url: str | None = None
    device_url: str | None = None
    client_id: str
    client_secret: str | None = None
    client_secret_file: str | None = None
    client_key_file: str | None = None  # a private key in PEM, with which the hall signs who it is (RFC 7523)
    scopes: tuple[str, ...] = ()  # requested in addition to the scopes of the tool
    authorize_params: dict[str, str] = {}
    resource: str | None = None  # RFC 8707: the resource that the tokens are for
    token_auth: TokenAuth | None = None  # client authentication; by default from the metadata
    upstreams: tuple[str, ...] = ()  # globs of upstreams that may use this client at their authorization server

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        shown |= {"client_secret": "***"} if self.client_secret else {}
        return f"ProviderSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoints of a provider; `sends_iss`: it announces to send `iss` in every callback (RFC 9207).

    `auth_methods`: how clients prove themselves, as it announces; `client_documents`: it takes clients whose id is the
    URL of their metadata; `scopes`: those that it announces.
    """

    authorize_url: str
    token_url: str
    revoke_url: str | None = None
    device_url: str | None = None
    register_url: str | None = None
    token_auth: TokenAuth
    sends_iss: bool = False
    auth_methods: tuple[str, ...] = ()
    client_documents: bool = False
    scopes: tuple[str, ...] = ()


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A configured provider; without `endpoints`, they are discovered by its issuer."""

    name: str
    issuer: str | None
    endpoints: Endpoints | None
    client_id: str
    client_secret: Secret | None
    token_auth: TokenAuth | None
    scopes: tuple[str, ...]
    authorize_params: dict[str, str]
    resource: str | None
    preset: Preset
    upstreams: tuple[str, ...] = ()
    callback: str | None = None  # the end of its own redirect path, if that is not the name
    client_key: Secret | None = None  # in PEM

    @property
    def is_upstream(self) -> bool:
        """Whether this was discovered for an upstream."""
        return self.name.startswith(UPSTREAM_PREFIX)

    @property
    def identity(self) -> str:
        """The provider's identity: accounts that were linked at another identity are not used.

        An upstream chooses its issuer, so its tokens belong to the resource, too.
        """
        if self.is_upstream:
            return f"{self.issuer} {self.resource}"
        return self.issuer or (self.endpoints.token_url if self.endpoints else "")

    def covers(self, granted: tuple[str, ...], needed: tuple[str, ...]) -> bool:
        """Return whether the granted scopes cover the needed ones."""
        return not self.missing_scopes(granted, needed)

    def missing_scopes(self, granted: tuple[str, ...], needed: tuple[str, ...]) -> tuple[str, ...]:
        """Return the needed scopes that are not granted, with or without the preset's prefixes."""
        present = set(map(self._short_scope, granted))
        return tuple(each for each in needed if self._short_scope(each) not in present)

    def requested_scopes(self, needed: tuple[str, ...]) -> tuple[str, ...]:
        """Return the scopes to request: the needed ones and those of the settings."""
        return tuple(dict.fromkeys((*needed, *self.scopes)))

    def _short_scope(self, scope: str) -> str:
        for prefix in self.preset.prefixes:
            scope = scope.removeprefix(prefix)
        return scope


def build_provider(name: str, settings: ProviderSettings) -> Provider:
    """Build the provider of these settings; raises BadProvider."""
    preset = _preset(name, settings)
    _check_settings(name, settings)
    issuer = settings.issuer or preset.issuer
    secret, key = _client_secret(name, settings), _client_key(name, settings)
    by_default: TokenAuth | None = "private_key_jwt" if key is not None else preset.token_auth
    auth = settings.token_auth or ("none" if secret is None and key is None else by_default)
    if auth == "private_key_jwt" and key is None:
        raise BadProvider(f"providers.{name}: token_auth is {auth!r}; set client_key_file too")
    if auth in ("basic", "post") and secret is None:
        raise BadProvider(f"providers.{name}: token_auth is {auth!r}; set client_secret or client_secret_file too")
    endpoints = _endpoints(settings, preset, auth or "basic")
    if endpoints is None and issuer is None:
        raise BadProvider(
            f"providers.{name}: set issuer, or authorize_url and token_url, or preset; there is one for each of"
            f" {', '.join(sorted(PRESETS.keys() - {'generic'}))}"
        )
    return Provider(
        name=name,
        issuer=issuer,
        endpoints=endpoints,
        client_id=settings.client_id,
        client_secret=secret,
        token_auth=auth,
        scopes=tuple(dict.fromkeys((*preset.scopes, *settings.scopes))),
        authorize_params=preset.authorize_params | settings.authorize_params,
        resource=settings.resource,
        preset=preset,
        upstreams=settings.upstreams,
        client_key=key,
    )


def provider_display_name(name: str) -> str:
    """Return a provider's own spelling of its name; one that the operator chose stays as it is."""
    return _DISPLAY_NAMES.get(name, name.removeprefix(UPSTREAM_PREFIX))


def is_scope(text: str) -> bool:
    """Return whether the text is one OAuth scope."""
    return OAUTH_SCOPE.fullmatch(text) is not None


def is_safe_url(url: str) -> bool:
    """Return whether a browser may be sent to a URL: unambiguous, and https or a private address."""
    try:
        parse_url(url, _PRIVATE_RANGES)
    except EgressRefused:
        return False
    return True


def is_private_url(url: str) -> bool:
    """Return whether a URL names this machine or a private address."""
    try:
        parse_url(url)
    except EgressRefused:
        return is_safe_url(url)
    return False


def is_allowed_endpoint(issuer: str, url: str) -> bool:
    """Return whether an issuer's metadata may name this endpoint: a public one, or one at the issuer's own origin."""
    try:
        if parse_url(url, _PRIVATE_RANGES).origin == parse_url(issuer, _PRIVATE_RANGES).origin:
            return True
        parse_url(url)
    except EgressRefused:
        return False
    return True


def _preset(name: str, settings: ProviderSettings) -> Preset:
    """Return the preset that the settings name; else that of the provider's name, unless the settings have URLs."""
    if settings.preset is not None:
        if settings.preset not in PRESETS:
            raise BadProvider(f"providers.{name}: there is no preset {settings.preset!r}; use {', '.join(PRESETS)}")
        return PRESETS[settings.preset]
    elsewhere = any(getattr(settings, each) is not None for each in _URL_SETTINGS)
    return GENERIC if elsewhere else PRESETS.get(name, GENERIC)


def _check_settings(name: str, settings: ProviderSettings) -> None:
    if not _NAME.fullmatch(name):
        raise BadProvider(f"the provider {name!r}: use letters, digits, '.', '_' and '-', such as 'google'")
    for each in _URL_SETTINGS:
        url: Any = getattr(settings, each)
        if url is not None and (not is_safe_url(url) or (each == "issuer" and "?" in url)):
            raise BadProvider(f"providers.{name}: {each} is not an https URL without user, fragment and odd characters")
    for scope in settings.scopes:
        if not is_scope(scope):
            raise BadProvider(f"providers.{name}: {scope!r} is not a scope; list each one by itself")
    if not settings.client_id or not settings.client_id.isprintable():
        raise BadProvider(f"providers.{name}: client_id is what the provider calls this hall; copy it from there")
    reserved = sorted(set(_RESERVED_PARAMS).intersection(settings.authorize_params))
    if reserved:
        raise BadProvider(f"providers.{name}: authorize_params may not hold {', '.join(reserved)}: the hall sets them")


def _endpoints(settings: ProviderSettings, preset: Preset, auth: TokenAuth) -> Endpoints | None:
    authorize, token = settings.authorize_url or preset.authorize_url, settings.token_url or preset.token_url
    if authorize is None or token is None:
        return None
    return Endpoints(
        authorize_url=authorize,
        token_url=token,
        revoke_url=settings.revoke_url or preset.revoke_url,
        device_url=settings.device_url or preset.device_url,
        token_auth=auth,
    )


def _client_key(name: str, settings: ProviderSettings) -> Secret | None:
    if settings.client_key_file is None:
        return None
    try:
        value = Path(settings.client_key_file).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise BadProvider(f"providers.{name}: client_key_file cannot be read; check its path and mode") from None
    if "PRIVATE KEY-----" not in value:
        raise BadProvider(f"providers.{name}: client_key_file holds no private key in PEM")
    return Secret(value)


def _client_secret(name: str, settings: ProviderSettings) -> Secret | None:
    value = settings.client_secret
    if settings.client_secret_file is not None:
        if value is not None:
            raise BadProvider(f"providers.{name}: set client_secret or client_secret_file, not both")
        try:
            value = Path(settings.client_secret_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise BadProvider(f"providers.{name}: client_secret_file cannot be read; check its path and mode") from None
    if value is not None and len(value) < MIN_SECRET_LENGTH:
        raise BadProvider(f"providers.{name}: client_secret is shorter than {MIN_SECRET_LENGTH} characters")
    return None if value is None else Secret(value)
