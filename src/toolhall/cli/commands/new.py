"""`toolhall new`: creates a folder with a toolkit, one tool and one passing test."""

import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.output import BOLD, CYAN, print_json, styled

Language: TypeAlias = Literal["python", "typescript"]
_TEMPLATES = Path(__file__).parents[1] / "templates"
_SDK = Path(__file__).parents[2] / "sdk" / "toolhall-sdk.tgz"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")
_RESERVED_NAMES: dict[Language, set[str]] = {
    "python": {*sys.stdlib_module_names, "toolhall", "pytest", "tests", *keyword.kwlist, *keyword.softkwlist},
    "typescript": {"main", "node_modules"},  # a file of the template; a folder that tsc leaves out
}


@dataclass(frozen=True)
class NewOptions:
    """Options of `toolhall new`.

    Parameters
    ----------
    lang
        The language of the tools.
    json
        Print JSON.
    """

    lang: Language = "python"
    json: bool = False


_DEFAULTS = NewOptions()


def new(name: str, /, *, options: Annotated[NewOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Start a toolkit: a folder with one tool and one passing test.

    Parameters
    ----------
    name
        The name of the folder and of the module in it, such as my_tools.
    """
    _check_name(name, options.lang)
    files = _render_files(name, options.lang)
    _write_folder(Path(name), files)
    next_steps = _next_steps(name, options.lang)
    if options.json:
        print_json({"folder": name, "files": list(files), "next": next_steps})
        return
    print(f"{styled('Made', BOLD, sys.stdout)} {name}/ with {', '.join(files)}\n\nNext:\n")
    for command in next_steps:
        print(f"  {styled(command, CYAN, sys.stdout)}")


def _check_name(name: str, lang: Language) -> None:
    taken = name in _RESERVED_NAMES[lang]
    if _NAME.fullmatch(name) and not taken:
        return
    if taken:
        where = "Python" if lang == "python" else "such a project"
        raise UsageError(f"{name!r} is the name of something in {where} already; choose another, such as {name}_tools")
    better = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_0123456789")[:50]
    hint = f"did you mean {better!r}?" if _NAME.fullmatch(better) else "for example my_tools"
    raise UsageError(f"{name!r} is not a package name: use a-z, 0-9 and _, starting with a letter; {hint}")


def _next_steps(name: str, lang: Language) -> list[str]:
    if lang == "typescript":
        return [f"cd {name}", "npm install && npm test", "HALL_URL=http://127.0.0.1:8000 npm start"]
    return [f"cd {name}", "python -m pip install pytest && python -m pytest", f"toolhall serve {name}.py --reload"]


def _render_files(name: str, lang: Language) -> dict[str, bytes]:
    """The contents of the new files by their path in the folder."""
    words = {"name": name, "project": name.replace("_", "-"), "toolkit": name.title().replace("_", "")}
    stem = words["name"] if lang == "python" else words["project"]
    files: dict[str, bytes] = {}
    for template in sorted((_TEMPLATES / lang).rglob("*.in")):
        path = template.relative_to(_TEMPLATES / lang)
        file = path.with_name(path.name.removesuffix(".in").replace("name", stem)).as_posix()
        files[file] = Template(template.read_text(encoding="utf-8")).substitute(words).encode()
    if lang == "typescript":
        files[f"vendor/{_SDK.name}"] = _read_sdk()
    return files


def _read_sdk() -> bytes:
    """The packed TypeScript SDK, which is on no registry; a build without Node.js does not have it."""
    try:
        return _SDK.read_bytes()
    except FileNotFoundError:
        fix = "install a release of toolhall, or run 'make sdk' in a clone (Node.js 20 or newer) and install from there"
        raise CommandError(f"this toolhall was built from source, without the TypeScript SDK; {fix}") from None
    except OSError as error:
        raise CommandError(f"the TypeScript SDK cannot be read ({error.strerror}); install toolhall again") from None


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    try:
        folder.mkdir()
    except FileExistsError:
        raise CommandError(f"there is already a {folder} here; choose another name, or remove it") from None
    except OSError as error:
        raise CommandError(f"the folder {folder} cannot be made here: {error.strerror}") from None
    for file, content in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(content)
