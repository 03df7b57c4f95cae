"""The providers that many people use, with the endpoints that each of them publishes."""

from typing import Literal, TypeAlias

import msgspec

TokenAuth: TypeAlias = Literal["basic", "post", "none"]


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """What need not be said in the settings; `prefixes` are parts of a scope's name that the provider may leave out."""

    issuer: str | None = None
    authorize_url: str | None = None
    token_url: str | None = None
    revoke_url: str | None = None
    device_url: str | None = None
    scopes: tuple[str, ...] = ()
    authorize_params: dict[str, str] = {}
    token_auth: TokenAuth | None = None
    json: bool = False  # it reads JSON where OAuth says a form
    headers: dict[str, str] = {}
    prefixes: tuple[str, ...] = ()


GENERIC = Preset()
PRESETS = {
    "generic": GENERIC,
    "google": Preset(
        issuer="https://accounts.google.com",
        authorize_url="https://accounts.google.com/o/oauth2/v2/auth",
        token_url="https://oauth2.googleapis.com/token",  # noqa: S106 - an address
        revoke_url="https://oauth2.googleapis.com/revoke",
        device_url="https://oauth2.googleapis.com/device/code",
        # Without both, Google gives a refresh token on the very first consent only.
        authorize_params={"access_type": "offline", "prompt": "consent"},
        token_auth="post",  # noqa: S106 - a way
        prefixes=("https://www.googleapis.com/auth/userinfo.",),
    ),
    "github": Preset(
        issuer="https://github.com/login/oauth",
        authorize_url="https://github.com/login/oauth/authorize",
        token_url="https://github.com/login/oauth/access_token",  # noqa: S106 - an address
        device_url="https://github.com/login/device/code",
        token_auth="post",  # noqa: S106 - a way
    ),
    "slack": Preset(
        issuer="https://slack.com",
        # The endpoints for tokens of a person; those at /oauth/v2/ give tokens of a bot.
        authorize_url="https://slack.com/oauth/v2_user/authorize",
        token_url="https://slack.com/api/oauth.v2.user.access",  # noqa: S106 - an address
        token_auth="basic",  # noqa: S106 - a way
    ),
    "microsoft": Preset(
        # No issuer: it names the tenant of whoever signs in. For one tenant, set `issuer` to it.
        authorize_url="https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
        token_url="https://login.microsoftonline.com/common/oauth2/v2.0/token",  # noqa: S106 - an address
        device_url="https://login.microsoftonline.com/common/oauth2/v2.0/devicecode",
        scopes=("offline_access",),
        token_auth="post",  # noqa: S106 - a way
        prefixes=("https://graph.microsoft.com/",),
    ),
    "notion": Preset(
        authorize_url="https://api.notion.com/v1/oauth/authorize",
        token_url="https://api.notion.com/v1/oauth/token",  # noqa: S106 - an address
        revoke_url="https://api.notion.com/v1/oauth/revoke",
        authorize_params={"owner": "user"},
        token_auth="basic",  # noqa: S106 - a way
        json=True,
        headers={"Notion-Version": "2025-09-03"},
    ),
    "atlassian": Preset(
        issuer="https://auth.atlassian.com",
        authorize_url="https://auth.atlassian.com/authorize",
        token_url="https://auth.atlassian.com/oauth/token",  # noqa: S106 - an address
        scopes=("offline_access",),
        authorize_params={"audience": "api.atlassian.com", "prompt": "consent"},
        token_auth="post",  # noqa: S106 - a way
        json=True,
    ),
}
