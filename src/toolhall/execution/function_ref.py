"""`FunctionRef`: names a tool's function by module, file and attribute path, so that another process can import it.

`function_ref_for` makes the reference in the hall, and refuses functions that cannot be found again, with the fix.
`load_function` resolves it in a worker process.
"""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import FunctionBody

_MOVE_TO_FILE = "move it to a file of its own and import it"


class FunctionRef(msgspec.Struct, frozen=True):
    """A function as a path of attributes: `steps` lead from the module to it.

    With `make`, all steps but the last name a toolkit class, of which the worker makes an instance.
    """

    module: str
    file: str
    steps: tuple[str, ...]
    make: bool = False


def function_ref_for(body: FunctionBody) -> FunctionRef:
    """The reference of this body; raises BadDeclaration, with the fix, if another process could not import it."""
    function = body.function
    if sys.platform != "linux":
        raise BadDeclaration(f"tool '{function.__name__}': isolated=True works on Linux only; leave it out here")
    owner = getattr(function, "__self__", None)
    module = sys.modules.get((type(owner) if owner is not None else function).__module__)
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__ == "__main__" or not Path(file).is_file():
        raise _not_importable(
            function, f"the program that was started, or a notebook, is not imported again; {_MOVE_TO_FILE}"
        )
    steps, make = (
        _attribute_path(body, module) if owner is not None else (tuple(function.__qualname__.split(".")), False)
    )
    if "<locals>" in steps:
        raise _not_importable(function, "it is made inside a function; move it to the top of its module")
    ref = FunctionRef(module.__name__, str(Path(file).resolve()), steps, make)
    if not make and _resolve(module, steps) != function:
        raise _not_importable(
            function, f"{module.__name__} holds something else under the name {'.'.join(steps)}; rename one"
        )
    return ref


def stateless_function_ref_for(body: FunctionBody) -> FunctionRef | None:
    """The reference of a body whose toolkit has no state and no lifespan, so that it can move; None for any other."""
    owner = getattr(body.function, "__self__", None)
    try:
        return None if getattr(owner, "__dict__", None) or hasattr(owner, "__aenter__") else function_ref_for(body)
    except BadDeclaration:
        return None


def load_module(ref: FunctionRef) -> ModuleType:
    """Import the module in this process: by name if that leads to the same file, else from the file."""
    known = sys.modules.get(ref.module)
    if known is not None:
        return known
    if _is_importable(ref):
        return importlib.import_module(ref.module)
    spec = importlib.util.spec_from_file_location(ref.module, ref.file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{ref.file} is not Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[ref.module] = module
    spec.loader.exec_module(module)
    return module


def load_function(ref: FunctionRef, instances: dict[tuple[str, ...], Any]) -> Any:
    """The function; a toolkit that must be made is made once and kept in `instances`, by its path."""
    module = load_module(ref)
    if not ref.make:
        return _resolve(module, ref.steps)
    steps = ref.steps[:-1]
    if steps not in instances:
        instances[steps] = _resolve(module, steps)()
    return getattr(instances[steps], ref.steps[-1])


def _is_importable(ref: FunctionRef) -> bool:
    """Whether the module name resolves to this file, and not to another file or to nothing."""
    try:
        found = importlib.util.find_spec(ref.module)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None and Path(found.origin).resolve() == Path(ref.file)


def _attribute_path(body: FunctionBody, module: ModuleType) -> tuple[tuple[str, ...], bool]:
    """The path of a method and `make`: through the module variable that holds the toolkit, or through its class."""
    function: Any = body.function
    owner, name = function.__self__, function.__name__
    for variable, held in vars(module).items():
        if held is owner:
            return (variable, name), False
    kind = type(owner)
    steps = (*kind.__qualname__.split("."), name)
    if not body.recreatable and (vars(owner) or kind.__init__ is not object.__init__):
        raise _not_importable(function, "its toolkit is no variable of its module; make it one, or serve the class")
    if "<locals>" not in steps and _resolve(module, steps[:-1]) is not kind:
        raise _not_importable(function, f"{module.__name__} holds another class under the name {kind.__qualname__}")
    return steps, True


def _resolve(start: object, steps: tuple[str, ...]) -> Any:
    found: Any = start
    for step in steps:
        found = getattr(found, step, None)
    return found


def _not_importable(function: Any, problem: str) -> BadDeclaration:
    code = inspect.unwrap(function).__code__
    place = f"{code.co_filename}:{code.co_firstlineno}: tool '{function.__name__}'"
    return BadDeclaration(f"{place}: isolated=True: another process cannot find it: {problem}")
