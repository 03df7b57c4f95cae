"""The settings of a running hall for `/api/settings`: `setting_rows`, and Deployment, what only the command line knows.

Values that are secret by their name, and parts of values that look like secrets, are left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolhall.config import SECRET_SETTINGS, Config, SettingOrigin
from toolhall.model.json import Json, JsonObject
from toolhall.model.upstream import shown_settings

_SECRET_MEMBERS = ("client_secret",)  # of the providers
_DEFAULTS = Config()
_DEFAULT, _CODE = SettingOrigin("default"), SettingOrigin("code")


class Deployment(msgspec.Struct, frozen=True):
    """How a hall is served: where its settings are stated, and by how many processes."""

    origins: Mapping[str, SettingOrigin] = {}
    workers: int = 1


def setting_rows(config: Config, origins: Mapping[str, SettingOrigin]) -> Iterator[JsonObject]:
    """Yield every setting with its value, default and origin; one that nothing states is the author's own code."""
    from toolhall.setting_descriptions import plain_description  # lazy: only who asks for the settings needs them

    for name in Config.__struct_fields__:
        value, default = getattr(config, name), getattr(_DEFAULTS, name)
        origin = origins.get(name) or (_DEFAULT if value == default else _CODE)
        is_secret = name in SECRET_SETTINGS
        yield {
            "name": name,
            "value": None if is_secret else without_secrets(_shown(name, value)),
            "default": None if is_secret else msgspec.to_builtins(default),
            "source": origin.source,
            "where": origin.where,
            "secret": is_secret,
            "description": plain_description(name),
        }


def _shown(name: str, value: Any) -> Json:
    if name != "upstreams":
        shown: Json = msgspec.to_builtins(value)
        return shown
    return {upstream: shown_settings(settings) for upstream, settings in value.items()}


def without_secrets(value: Json) -> Json:
    """Return a value with null for secrets of providers, and without passwords and tokens in texts."""
    match value:
        case str():
            from toolhall.redaction.secret_patterns import redact_patterns  # lazy: the patterns, as above

            return redact_patterns(value, _ignore)
        case dict():
            return {key: None if key in _SECRET_MEMBERS else without_secrets(member) for key, member in value.items()}
        case list() | tuple():
            return list(map(without_secrets, value))
        case _:
            return value


def _ignore(_: str) -> None:
    """Take no notice of what was found."""
