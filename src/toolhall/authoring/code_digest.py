"""The SHA-256 of a tool's code, to which an approval is bound beside the definition and the arguments.

It covers the function, the functions that it wraps or closes over, and the whole text of each file that these are
written in, so that a changed helper or constant beside the tool counts, too. It does not cover what those files import,
values that a tool keeps in memory, or data that it reads. The same files give the same digest in every process of one
version of Python.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

_MAX_FUNCTIONS = 64  # wrappers around wrappers


def code_sha256(function: Callable[..., Any], files: dict[str, bytes] | None = None) -> str:
    """The digest of what runs when this function is called; of what has no Python code, only its type's name.

    `files` holds the digests of source files, by their real paths, as they were when they were imported; those that it
    does not hold are read now, and added.
    """
    digest = hashlib.sha256()
    for layer in _inner_functions(function):
        code = layer.__code__
        digest.update(_describe_code(code).encode("utf-8", "surrogatepass"))
        if files is None:
            digest.update(file_sha256(code.co_filename))
            continue
        place = os.path.realpath(code.co_filename)
        if place not in files:
            files[place] = file_sha256(place)
        digest.update(files[place])
    return digest.hexdigest()


def _inner_functions(function: object) -> Iterator[FunctionType]:
    """The function, then whatever functions are inside it, each once."""
    waiting, seen = [function], set[int]()
    while waiting and len(seen) < _MAX_FUNCTIONS:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        match each:
            case FunctionType():
                yield each
                waiting.append(getattr(each, "__wrapped__", None))
                waiting += _closed_over(each)
            case MethodType():
                waiting.append(each.__func__)
            case functools.partial():
                waiting.append(each.func)
            case None | type():
                continue
            case _:  # an instance with a method `__call__`, if it can be called
                waiting.append(getattr(type(each), "__call__", None))  # noqa: B004 - the method itself is wanted


def _closed_over(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if isinstance(content, FunctionType | MethodType | functools.partial):
            yield content


def _describe_code(code: CodeType) -> str:
    """What the code does, without where it stands; the same text in every process."""
    constants = [_describe_constant(each) for each in code.co_consts]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return repr((code.co_flags, code.co_code.hex(), code.co_exceptiontable.hex(), names, constants))


def _describe_constant(value: object) -> str:
    match value:
        case CodeType():
            return _describe_code(value)
        case tuple():
            return f"tuple {[_describe_constant(each) for each in value]}"
        case frozenset():  # its order is another one in each process
            return f"frozenset {sorted(_describe_constant(each) for each in value)}"
        case _:
            return f"{type(value).__name__} {value!r}"


def file_sha256(name: str) -> bytes:
    """The digest of a source file; nothing where there is none, as for code that was typed at a prompt."""
    try:
        about = os.stat(name)  # noqa: PTH116 - `co_filename` is a text
        return _cached_sha256(name, about.st_mtime_ns, about.st_size)
    except (OSError, ValueError):
        return b""


@functools.lru_cache(maxsize=1_024)
def _cached_sha256(name: str, _changed: int, _size: int) -> bytes:
    """Read once for all the tools in a file."""
    return hashlib.sha256(Path(name).read_bytes()).digest()
