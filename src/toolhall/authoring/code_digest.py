"""The SHA-256 of a tool's code: an approval is bound to it, to the definition and to the arguments.

The digest covers the function, the functions that it wraps or closes over, and the whole text of each of their source
files, so that it changes with a helper or constant beside the tool. It does not cover imports of these files, values in
memory, or data that the tool reads. The same files give the same digest in every process of one version of Python.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

_MAX_FUNCTIONS = 64  # nested wrappers and closures


def code_sha256(function: Callable[..., Any], files: dict[str, bytes] | None = None) -> str:
    """The digest of a function's code and source files; callables without Python code do not contribute.

    `files` has the digests of source files at the time of their import, by real path; missing ones are read now and
    added.
    """
    digest = hashlib.sha256()
    for layer in _inner_functions(function):
        code = layer.__code__
        digest.update(_describe_code(code).encode("utf-8", "surrogatepass"))
        if files is None:
            digest.update(file_sha256(code.co_filename))
            continue
        path = os.path.realpath(code.co_filename)
        if path not in files:
            files[path] = file_sha256(path)
        digest.update(files[path])
    return digest.hexdigest()


def _inner_functions(function: object) -> Iterator[FunctionType]:
    """The function, and all functions that it wraps or closes over, each once."""
    pending, seen = [function], set[int]()
    while pending and len(seen) < _MAX_FUNCTIONS:
        each = pending.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        match each:
            case FunctionType():
                yield each
                pending.append(getattr(each, "__wrapped__", None))
                pending += _closed_over(each)
            case MethodType():
                pending.append(each.__func__)
            case functools.partial():
                pending.append(each.func)
            case None | type():
                continue
            case _:  # an instance with a method `__call__`, if it can be called
                pending.append(getattr(type(each), "__call__", None))  # noqa: B004 - the method itself is wanted


def _closed_over(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if isinstance(content, FunctionType | MethodType | functools.partial):
            yield content


def _describe_code(code: CodeType) -> str:
    """The bytecode, names and constants of a code object, without line numbers; stable between processes."""
    constants = [_describe_constant(each) for each in code.co_consts]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return repr((code.co_flags, code.co_code.hex(), code.co_exceptiontable.hex(), names, constants))


def _describe_constant(value: object) -> str:
    match value:
        case CodeType():
            return _describe_code(value)
        case tuple():
            return f"tuple {[_describe_constant(each) for each in value]}"
        case frozenset():  # its order differs between processes
            return f"frozenset {sorted(_describe_constant(each) for each in value)}"
        case _:
            return f"{type(value).__name__} {value!r}"


def file_sha256(name: str) -> bytes:
    """The digest of a source file; empty if there is no file, as for code from a prompt."""
    try:
        status = os.stat(name)  # noqa: PTH116 - `co_filename` is a str
        return _cached_sha256(name, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError):
        return b""


@functools.lru_cache(maxsize=1_024)
def _cached_sha256(name: str, _changed: int, _size: int) -> bytes:
    """Cached, because a file may define many tools."""
    return hashlib.sha256(Path(name).read_bytes()).digest()
