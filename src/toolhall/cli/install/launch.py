"""The absolute command line with which an MCP client starts this Toolhall over stdio: `stdio_server`."""

import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from toolhall.cli.errors import UsageError
from toolhall.cli.install.mcp_clients import StdioServer
from toolhall.cli.settings import default_data_folder
from toolhall.cli.target_names import DEFINITION_SUFFIXES
from toolhall.config import FILE_NAME
from toolhall.server.process import secret_env_in

_PROGRAM = "toolhall"
_UV_CACHES = {"archive-v0", "environments-v2"}  # folders of temporary environments of uvx
_PREFIX = "TOOLHALL_"
_MAX_NAME = 40
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""\bextra\s*==\s*["']([^"']+)["']""")


def stdio_server(
    targets: Sequence[str], data: Path | None, config: Path | None, environment: Mapping[str, str]
) -> StdioServer:
    """How a client starts `toolhall serve TARGETS --stdio` from any folder, with the same effect as here.

    Settings in the environment are included, except for secrets.
    """
    command, *args = launch_command()
    words = [*args, "serve", *map(absolute_target, targets), "--stdio"]
    stated = data or (Path(environment["TOOLHALL_DATA"]) if environment.get("TOOLHALL_DATA") else None)
    if stated is None and not (targets and Path(words[len(args) + 1]).is_absolute()):
        stated = default_data_folder(targets)  # from another folder the default would differ
    file = config or (Path(FILE_NAME) if Path(FILE_NAME).is_file() else None)
    words += ["--data", str(stated.absolute())] if stated else []
    words += ["--config", str(file.absolute())] if file else []
    left_out = {*secret_env_in(environment), "TOOLHALL_DATA"}
    settings = {name: value for name, value in environment.items() if name.startswith(_PREFIX) and name not in left_out}
    return StdioServer(command, words, {name: value for name, value in settings.items() if not name.endswith("_FILE")})


def launch_command() -> list[str]:
    """The command line that starts this program from any folder."""
    if _UV_CACHES & set(Path(sys.prefix).parts):
        folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        return [*_uvx_command(os.environ), *uvx_arguments(sorted(folders)), _PROGRAM]
    script = Path(sys.argv[0])
    if script.stem == _PROGRAM and script.is_file() and os.access(script, os.X_OK):
        return [str(script.absolute())]
    return [sys.executable, "-P", "-m", "toolhall.cli"]


def absolute_target(target: str) -> str:
    """The target with an absolute path, if it is a path."""
    file, colon, name = target.partition(".py:")
    path, ending = (f"{file}.py", f":{name}") if colon else (target, "")
    if Path(path).exists():
        return f"{Path(path).absolute()}{ending}"
    if path.lower().endswith((".py", *DEFINITION_SUFFIXES)):
        raise UsageError(f"there is no file {path}; give a file, a folder or a module that defines tools")
    module, colon, name = target.partition(":")
    below = Path.cwd().joinpath(*module.split("."))
    ending = f"{colon}{name}"
    if below.with_name(f"{below.name}.py").is_file():
        return f"{below.with_name(f'{below.name}.py')}{ending}"
    if ending and (below / "__init__.py").is_file():
        return f"{below / '__init__.py'}{ending}"
    return target if ending or not below.is_dir() else str(below)


def default_name(targets: Sequence[str], setting: str = _PROGRAM) -> str:
    """The name of the server in a client's file: the setting `name`, else the name of the first target."""
    if setting != _PROGRAM or not targets:
        return _valid_name(setting)
    file, is_file_member, _ = targets[0].partition(".py:")
    path = Path(f"{file}.py" if is_file_member else targets[0])
    if path.is_dir():
        stem = path.absolute().name
    elif path.is_file() or path.name.lower().endswith((".py", *DEFINITION_SUFFIXES)):
        stem = path.stem
    else:  # a module, or an object in one
        stem = targets[0].partition(":")[0].rpartition(".")[2]
    return _valid_name(stem)


def _valid_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:_MAX_NAME] or _PROGRAM


def uvx_arguments(folders: Sequence[str]) -> list[str]:
    """The arguments with which uvx recreates the environment whose packages are in these folders.

    They name the source or version of toolhall, its installed extras, and the packages that no other package depends
    on, which were added with --with.
    """
    installed = {_normalized_name(each.name): each for each in distributions(path=list(folders))}
    ours = installed[_PROGRAM]
    extras = [
        extra
        for extra in sorted(ours.metadata.get_all("Provides-Extra") or ())
        if all(each in installed for each, _ in _dependencies(ours, {extra}, only_extras=True))
    ]
    others = installed.keys() - _dependency_closure(installed, _PROGRAM, extras)
    required = {name for each in others for name in _dependency_closure(installed, each, ()) - {each}}
    added = [word for each in sorted(others - required) for word in ("--with", _requirement(installed[each]))]
    return ["--from", _requirement(ours, extras), *added]


def _uvx_command(environment: Mapping[str, str]) -> list[str]:
    """The command line of uvx; uv puts its own path into the variable UV."""
    uv = Path(environment.get("UV", ""))
    if uv.is_absolute() and uv.is_file():
        uvx = uv.with_name(f"uvx{uv.suffix}")
        return [str(uvx)] if uvx.is_file() else [str(uv), "tool", "run"]
    return [shutil.which("uvx") or "uvx"]


def _dependency_closure(installed: Mapping[str, Distribution], name: str, extras: Iterable[str]) -> set[str]:
    """The names of a package and of its installed dependencies, transitively."""
    extras_of: dict[str, set[str]] = {}
    pending = [(name, set(extras))]
    while pending:
        each, wanted = pending.pop()
        if each in installed and not (each in extras_of and wanted <= extras_of[each]):
            extras_of[each] = extras_of.get(each, set()) | wanted
            pending += _dependencies(installed[each], extras_of[each])
    return set(extras_of)


def _dependencies(
    package: Distribution, extras: Set[str], *, only_extras: bool = False
) -> Iterator[tuple[str, set[str]]]:
    """The name and extras of each requirement of a package that is installed with these extras."""
    for stated in package.requires or ():
        found, condition = _REQUIREMENT.match(stated), _EXTRA.search(stated)
        if found and (condition[1] in extras if condition else not only_extras):
            yield _normalized_name(found[1]), {each.strip() for each in (found[2] or "").split(",") if each.strip()}


def _normalized_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirement(package: Distribution, extras: Sequence[str] = ()) -> str:
    """The requirement that installs the same package: its URL (PEP 610), or its version."""
    name = f"{package.name}[{','.join(extras)}]" if extras else package.name
    written = package.read_text("direct_url.json")
    origin: dict[str, Any] = json.loads(written) if written else {}
    url, source = str(origin.get("url", "")), origin.get("vcs_info")
    if not url:
        return f"{name}=={package.version}"
    if isinstance(source, dict):
        url = f"{source.get('vcs', 'git')}+{url}@{source.get('commit_id')}"
    fragment = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
    return f"{name} @ {url}{fragment}"
