"""What to look at in the settings of an upstream: credentials that stand there as they are, packages without a version.

`credentials_in` finds the values of `headers` and `env` that look like credentials, by name or by shape;
`move_credentials` replaces them by references to secrets. `unpinned_package` names a package that `npx`, `uvx` or
`docker` would fetch in whatever version there is that day.
"""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from toolhall.dialects.client_files.variables import secret_name
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.model.upstream import UpstreamSettings, names_secret
from toolhall.redaction.secret_patterns import redact_patterns

_NO_CREDENTIAL = frozenset(
    ["basic", "bearer", "default", "disabled", "enabled", "false", "none", "null", "oauth", "oauth2", "true"]
)
_PLACE_NAME = re.compile(r"(?i)(?:^|[_-])(?:dir|file|folder|host|method|path|type|uri|url)$")
_SCHEME = re.compile(r"(?i)(?:basic|bearer|token|apikey) +")
_EXACT = re.compile(r"v?\d+(?:\.\d+)+[A-Za-z0-9.+-]*")
_RUNNERS = {
    "npx": "npm", "bunx": "npm", "pnpx": "npm", "uvx": "pypi", "pipx": "pypi", "docker": "oci", "podman": "oci",
    "dnx": "nuget",
}  # fmt: skip
_WORDS_BEFORE_PACKAGE = {"pipx": ("run",), "docker": ("run",), "podman": ("run",)}
# Options whose value is the next word, so that the value is not taken for the package.
_WITH_VALUE = frozenset(
    (
        *("-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "--network", "--net", "-p", "--publish"),
        *("-u", "--user", "-w", "--workdir", "--entrypoint", "--platform", "-l", "--label", "--add-host", "-m"),
        *("--memory", "--python", "--with", "--index-url", "--index", "--registry", "--cache", "--directory"),
        "--source",
    )
)
_NAMES_PACKAGE = ("--from", "--package", "--spec")


class Credential(msgspec.Struct, frozen=True):
    """A value that looks like a credential: the part of the settings and the name there, never the value."""

    part: Literal["headers", "env", "args", "url"]
    name: str


def credentials_in(settings: UpstreamSettings) -> tuple[Credential, ...]:
    """Every value of the settings that looks like a credential and is no reference to a secret."""
    return tuple(_credentials(settings))


def move_credentials(upstream: str, settings: UpstreamSettings) -> tuple[UpstreamSettings, dict[str, Secret]]:
    """The settings with references in place of the credentials in `headers` and `env`, and the secrets by name."""
    moved: dict[str, Secret] = {}
    parts: dict[str, dict[str, str]] = {"headers": dict(settings.headers), "env": dict(settings.env)}
    for found in credentials_in(settings):
        if found.part not in ("headers", "env"):
            continue
        value = parts[found.part][found.name]
        scheme = _SCHEME.match(value)
        start = scheme.end() if scheme is not None and len(value) - scheme.end() >= MIN_SECRET_LENGTH else 0
        prefix, own = (text.upper().replace("-", "_") for text in (upstream, found.name))
        name = secret_name(own if own.startswith(f"{prefix}_") else f"{prefix}_{own}")
        while name in moved:
            name += "_"
        moved[name] = Secret(value[start:])
        parts[found.part][found.name] = f"{value[:start]}${{secret:{name}}}"
    return (msgspec.structs.replace(settings, **parts), moved) if moved else (settings, moved)


def unpinned_package(command: str, args: tuple[str, ...]) -> str | None:
    """The package that this command fetches in no exact version, or None."""
    words = (command, *args)
    if command.lower() in ("cmd", "cmd.exe") and args[:1] and args[0].lower() == "/c":
        words = args[1:]
    if not words:
        return None
    runner = re.split(r"[\\/]", words[0])[-1].lower().removesuffix(".exe").removesuffix(".cmd")
    registry = _RUNNERS.get(runner)
    if registry is None:
        return None
    names = (*_NAMES_PACKAGE, "-p") if registry == "npm" else _NAMES_PACKAGE
    package = _package_word(words[1:], _WORDS_BEFORE_PACKAGE.get(runner, ()), names)
    return None if package is None or _is_local(package) or _is_pinned(package, registry) else package


def looks_like_credential(name: str, value: str) -> bool:
    """Whether a value looks like a credential, by its name or by its shape."""
    if len(value) < MIN_SECRET_LENGTH or "${" in value or value.casefold() in _NO_CREDENTIAL:
        return False
    if names_secret(name) and not _PLACE_NAME.search(name) and not value.isdecimal():
        return True
    return redact_patterns(value, _ignore) != value


def _credentials(settings: UpstreamSettings) -> Iterator[Credential]:
    for name, value in settings.headers.items():
        if looks_like_credential(name, value):
            yield Credential("headers", name)
    for name, value in settings.env.items():
        if looks_like_credential(name, value):
            yield Credential("env", name)
    for number, text in enumerate(settings.args):
        option, equals, value = text.partition("=")
        before = settings.args[number - 1] if number else ""
        follows_option = before.startswith("-") and "=" not in before and not text.startswith("-")
        named = option if equals and option.startswith("-") else before if follows_option else ""
        if looks_like_credential(named, value if equals and named == option else text):
            yield Credential("args", named or f"argument {number + 1}")
    if settings.url is not None and redact_patterns(settings.url, _ignore) != settings.url:
        yield Credential("url", "query")


def _package_word(words: tuple[str, ...], skipped: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """The word that names the package: after `--from` and its like, else the first that is no option."""
    waits = False
    for number, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in names:
            return value if equals else next(iter(words[number + 1 :]), None)
        if waits or word in skipped or word == "--":
            waits = False
        elif word.startswith("-"):
            waits = word in _WITH_VALUE
        else:
            return word
    return None


def _is_local(package: str) -> bool:
    return package.startswith((".", "/", "~", "git+", "http://", "https://", "file:")) or package[1:3] == ":\\"


def _is_pinned(package: str, registry: str) -> bool:
    if registry == "oci":
        _, _, tag = package.rpartition("/")[2].partition(":")
        return "@sha256:" in package or bool(_EXACT.fullmatch(tag))
    if registry == "pypi" and "==" in package:
        return bool(_EXACT.fullmatch(package.rpartition("==")[2]))
    return bool(_EXACT.fullmatch(package[1:].partition("@")[2]))  # not the @ of a scope


def _ignore(_: str) -> None:
    """Take no notice of what was found."""
