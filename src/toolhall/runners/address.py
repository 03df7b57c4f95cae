"""Where another process finds a tool's function: the module, its file, and the way to the function inside it."""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import Body

_TO_A_FILE = "move it to a file of its own and import it"


class Address(msgspec.Struct, frozen=True):
    """`steps` lead from the module to the function; with `make`, all but the last name a toolkit's class to make."""

    module: str
    file: str
    steps: tuple[str, ...]
    make: bool = False


def address_of(body: Body) -> Address:
    """Where this body is found again; BadDeclaration says what to change where it is not."""
    function = body.function
    if sys.platform != "linux":
        raise BadDeclaration(f"tool '{function.__name__}': isolated=True works on Linux only; leave it out here")
    owner = getattr(function, "__self__", None)
    module = sys.modules.get((type(owner) if owner is not None else function).__module__)
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__ == "__main__" or not Path(file).is_file():
        raise _lost(function, f"the program that was started, or a notebook, is not imported again; {_TO_A_FILE}")
    steps, make = _steps(body, module) if owner is not None else (tuple(function.__qualname__.split(".")), False)
    if "<locals>" in steps:
        raise _lost(function, "it is made inside a function; move it to the top of its module")
    address = Address(module.__name__, str(Path(file).resolve()), steps, make)
    if not make and _reached(module, steps) != function:
        raise _lost(function, f"{module.__name__} holds something else under the name {'.'.join(steps)}; rename one")
    return address


def stateless_address_of(body: Body) -> Address | None:
    """Where it is found again, for a body that would not notice: no toolkit with a memory or a lifespan of its own."""
    owner = getattr(body.function, "__self__", None)
    try:
        return None if getattr(owner, "__dict__", None) or hasattr(owner, "__aenter__") else address_of(body)
    except BadDeclaration:
        return None


def load_module(address: Address) -> ModuleType:
    """Import the module in this process, by its name where that leads to the same file, else from the file."""
    known = sys.modules.get(address.module)
    if known is not None:
        return known
    if _is_importable(address):
        return importlib.import_module(address.module)
    spec = importlib.util.spec_from_file_location(address.module, address.file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{address.file} is not Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[address.module] = module
    spec.loader.exec_module(module)
    return module


def load_function(address: Address, made: dict[tuple[str, ...], Any]) -> Any:
    """The function itself; a toolkit that must be made is made once and kept in `made`."""
    module = load_module(address)
    if not address.make:
        return _reached(module, address.steps)
    steps = address.steps[:-1]
    if steps not in made:
        made[steps] = _reached(module, steps)()
    return getattr(made[steps], address.steps[-1])


def _is_importable(address: Address) -> bool:
    """Whether its name leads to its file, and not to a namesake or nowhere."""
    try:
        found = importlib.util.find_spec(address.module)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None and Path(found.origin).resolve() == Path(address.file)


def _steps(body: Body, module: ModuleType) -> tuple[tuple[str, ...], bool]:
    """Through the variable that holds the toolkit, or through its class if the toolkit was made from that."""
    function: Any = body.function
    owner, name = function.__self__, function.__name__
    for variable, held in vars(module).items():
        if held is owner:
            return (variable, name), False
    kind = type(owner)
    steps = (*kind.__qualname__.split("."), name)
    if not body.fresh and (vars(owner) or kind.__init__ is not object.__init__):
        raise _lost(function, "its toolkit is no variable of its module; make it one, or serve the class")
    if "<locals>" not in steps and _reached(module, steps[:-1]) is not kind:
        raise _lost(function, f"{module.__name__} holds another class under the name {kind.__qualname__}")
    return steps, True


def _reached(start: object, steps: tuple[str, ...]) -> Any:
    found: Any = start
    for step in steps:
        found = getattr(found, step, None)
    return found


def _lost(function: Any, problem: str) -> BadDeclaration:
    code = inspect.unwrap(function).__code__
    place = f"{code.co_filename}:{code.co_firstlineno}: tool '{function.__name__}'"
    return BadDeclaration(f"{place}: isolated=True: another process cannot find it: {problem}")
