"""The MCP registry's `server.json` (schemas of 2025-07 to 2025-12): read_registry_entry fills a ServerDraft from one.

Remotes come first. A package becomes the command that runs it in exactly the stated version: `npx`, `uvx`, `docker`
or `dnx`. Variables and headers with `isSecret` become references to secrets where no value is given for them.
"""

import re
from collections.abc import Iterator
from typing import Literal

from toolhall.dialects.client_files.server import DraftProblem, ServerDraft, plain_object
from toolhall.dialects.client_files.variables import secret_name
from toolhall.model.json import Json, JsonObject

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,127})\}")
_SNAKE = re.compile(r"(?<!^)([A-Z])")
_SUPPORTED = ("npm", "pypi", "oci", "docker", "nuget")


def read_registry_entry(draft: ServerDraft, entry: JsonObject) -> None:
    """Fill the draft from a server.json; raises DraftProblem."""
    remotes, packages = _objects(entry, "remotes"), _objects(entry, "packages")
    if remotes:
        _read_remote(draft, _best_remote(remotes))
        for number in range(len(packages)):
            draft.lose("packages", number, reason="the server can be reached at an URL, which comes first")
        for number, remote in enumerate(remotes):
            if remote is not _best_remote(remotes):
                draft.lose("remotes", number, reason="one URL is enough")
        return
    for number, package in enumerate(packages):
        if _registry_of(package) in _SUPPORTED and _is_stdio(package):
            _read_package(draft, package)
            for other in range(len(packages)):
                if other != number:
                    draft.lose("packages", other, reason="one package is enough")
            return
    kinds = ", ".join(sorted({_registry_of(each)[:40] for each in packages})) or "none"
    raise DraftProblem(
        f"it has no remotes, and no package of npm, pypi, oci or nuget that speaks stdio (there: {kinds})"
    )


def _best_remote(remotes: list[JsonObject]) -> JsonObject:
    return next((each for each in remotes if _transport_of(each) != "sse"), remotes[0])


def _transport_of(remote: JsonObject) -> Json:
    return _member(remote, "type") or _member(remote, "transportType")


def _read_remote(draft: ServerDraft, remote: JsonObject) -> None:
    draft.parts["url"] = _filled(draft, remote, "url", may_hold_secret=False)
    if _transport_of(remote) == "sse":
        draft.parts["transport"] = "sse"
    draft.add_members("headers", dict(_named_inputs(draft, remote, "headers")))


def _registry_of(package: JsonObject) -> str:
    return str(_member(package, "registryType") or _member(package, "registryName") or "unknown")


def _is_stdio(package: JsonObject) -> bool:
    transport = package.get("transport")
    return not isinstance(transport, dict) or transport.get("type", "stdio") == "stdio"


def _read_package(draft: ServerDraft, package: JsonObject) -> None:
    name = package.get("identifier") or package.get("name")
    version = package.get("version")
    if not isinstance(name, str) or not name or name.startswith("-"):
        raise DraftProblem("packages: identifier is no name of a package")
    if version is not None and not isinstance(version, str):
        raise DraftProblem("packages: version is no text")
    environment = dict(_named_inputs(draft, package, "environmentVariables"))
    runtime = list(_arguments(draft, package, "runtimeArguments"))
    own = list(_arguments(draft, package, "packageArguments"))
    command, words = _launch(_registry_of(package), name, version, runtime, environment)
    draft.parts |= {"command": command, "args": (*words, *own), "env": environment}


def _launch(
    registry: str, name: str, version: str | None, runtime: list[str], environment: dict[str, str]
) -> tuple[str, list[str]]:
    """The command that runs a package of this registry, and its words up to the package's own arguments."""
    match registry:
        case "npm":
            return "npx", ["-y", *(each for each in runtime if each not in ("-y", "--yes")), _at(name, version)]
        case "pypi":
            return "uvx", [*runtime, _at(name, version)]
        case "nuget":
            return "dnx", [_at(name, version), "--yes", *runtime, "--"]
        case _:
            has_tag = ":" in name.rpartition("/")[2]
            image = name if version is None or has_tag else f"{name}:{version}"
            passed = [word for each in environment for word in ("-e", each)]
            return "docker", ["run", "-i", "--rm", *passed, *runtime, image]


def _at(name: str, version: str | None) -> str:
    return name if version is None or "@" in name[1:] else f"{name}@{version}"


def _named_inputs(
    draft: ServerDraft, holder: JsonObject, member: Literal["headers", "environmentVariables"]
) -> Iterator[tuple[str, str]]:
    """Names and values of headers or variables; those that are neither required nor given are left out."""
    for each in _objects(holder, member):
        name = each.get("name")
        if not isinstance(name, str) or not name:
            raise DraftProblem(f"{member}: a member has no name")
        if each.get("value") is not None:
            yield name, _filled(draft, each, "value", may_hold_secret=True)
            continue
        given = _given(draft, secret_name(name) if member == "headers" else name, each, may_hold_secret=True)
        if given is not None:
            yield name, given


def _arguments(
    draft: ServerDraft, package: JsonObject, member: Literal["runtimeArguments", "packageArguments"]
) -> Iterator[str]:
    for number, each in enumerate(_objects(package, member)):
        named = each.get("type") == "named" and isinstance(each.get("name"), str)
        label = str(each["name"]) if named else str(_member(each, "valueHint") or f"argument_{number + 1}")
        value: str | None = None
        if each.get("value") is not None:
            value = _filled(draft, each, "value", may_hold_secret=False)
        elif not (named and not _is_required(each) and each.get("default") is None):
            value = _given(draft, label.lstrip("-").replace("-", "_"), each, may_hold_secret=False)
        if named and (value is not None or _is_required(each)):
            yield label
        if value is not None:
            yield value


def _filled(draft: ServerDraft, holder: JsonObject, member: str, *, may_hold_secret: bool) -> str:
    """The text of a member with its `{placeholders}` filled."""
    value = holder.get(member)
    if not isinstance(value, str):
        raise DraftProblem(f"{member} is no text")
    variables = plain_object(holder.get("variables"))

    def fill(found: re.Match[str]) -> str:
        described = variables.get(found[1])
        if not isinstance(described, dict):
            return found[0]
        return _given(draft, found[1], {"isRequired": True, **described}, may_hold_secret=may_hold_secret) or ""

    return _PLACEHOLDER.sub(fill, value)


def _given(draft: ServerDraft, name: str, described: JsonObject, *, may_hold_secret: bool) -> str | None:
    """What is given for an input, else its default; None if it is optional."""
    fallback = described.get("value") if described.get("value") is not None else described.get("default")
    text = None if fallback is None else draft.text(fallback, name)
    if text is None and not _is_required(described):
        return draft.optional(name)
    return draft.lookup(name, text, may_hold_secret=may_hold_secret)


def _is_required(described: JsonObject) -> bool:
    return _member(described, "isRequired") is True


def _member(holder: JsonObject, name: str) -> Json:
    """A member under its name, or under that of older schemas, in snake case."""
    return holder[name] if name in holder else holder.get(_SNAKE.sub(r"_\1", name).lower())


def _objects(holder: JsonObject, name: str) -> list[JsonObject]:
    found = _member(holder, name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
