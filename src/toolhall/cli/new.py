"""`toolhall new`: a folder with a toolkit, one tool and one passing test."""

import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Annotated, Literal

from cyclopts import Parameter

from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.screen import BOLD, CYAN, print_json, styled

_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")
_TAKEN = sys.stdlib_module_names | {"toolhall", "pytest", "tests"} | set(keyword.kwlist) | set(keyword.softkwlist)


@dataclass(frozen=True)
class NewOptions:
    """What `toolhall new` takes besides the name.

    Parameters
    ----------
    lang
        The language of the tools.
    json
        Print JSON.
    """

    lang: Literal["python", "typescript"] = "python"
    json: bool = False


_DEFAULTS = NewOptions()


def new(name: str, /, *, options: Annotated[NewOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Start a toolkit: a folder with one tool and one passing test.

    Parameters
    ----------
    name
        The name of the folder and of the module in it, such as my_tools.
    """
    _check_name(name)
    if options.lang != "python":
        raise CommandFailed(f"--lang {options.lang} comes with a later version; use --lang python")
    files = _write(Path(name), options.lang, name)
    following = [f"cd {name}", "python -m pip install pytest && python -m pytest", f"toolhall serve {name}.py --reload"]
    if options.json:
        print_json({"folder": name, "files": files, "next": following})
        return
    print(f"{styled('Made', BOLD, sys.stdout)} {name}/ with {', '.join(files)}\n\nNext:\n")
    for command in following:
        print(f"  {styled(command, CYAN, sys.stdout)}")


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) and name not in _TAKEN:
        return
    if name in _TAKEN:
        raise WrongUsage(f"{name!r} is the name of something in Python already; choose another, such as {name}_tools")
    better = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_0123456789")[:50]
    hint = f"did you mean {better!r}?" if _NAME.fullmatch(better) else "for example my_tools"
    raise WrongUsage(f"{name!r} is not a package name: use a-z, 0-9 and _, starting with a letter; {hint}")


def _write(folder: Path, lang: str, name: str) -> list[str]:
    words = {"name": name, "project": name.replace("_", "-"), "toolkit": name.title().replace("_", "")}
    try:
        folder.mkdir()
    except FileExistsError:
        raise CommandFailed(f"there is already a {folder} here; choose another name, or remove it") from None
    except OSError as error:
        raise CommandFailed(f"the folder {folder} cannot be made here: {error.strerror}") from None
    files: list[str] = []
    for template in sorted((_TEMPLATES / lang).iterdir()):
        file = template.name.removesuffix(".in").replace("name", name)
        text = Template(template.read_text(encoding="utf-8")).substitute(words)
        (folder / file).write_text(text, encoding="utf-8")
        files.append(file)
    return files
