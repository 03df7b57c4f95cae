"""`@thing.complete("argument")`: functions that complete the arguments of a prompt or the variables of a resource.

Completable is the type of what `@resource` and `@prompt` return: the function itself, with a method `complete`.
"""

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, get_type_hints, overload

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import CompletionFunction, Declaration, declaration_error
from toolhall.model.json import JsonObject
from toolhall.schema.signature import Binder

P = ParamSpec("P")
OwnerT_contra = TypeVar("OwnerT_contra", contravariant=True)
ReturnedT_co = TypeVar("ReturnedT_co", covariant=True)
OwnerT = TypeVar("OwnerT")
Rest = ParamSpec("Rest")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_TAKEN = ("typed", "given")


class Completable(Protocol[P, ReturnedT_co]):
    """A function that is a resource or a prompt, whose arguments can be completed."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ReturnedT_co:
        """Call the function."""
        ...

    def complete(self, argument: str) -> Callable[[FunctionT], FunctionT]:
        """Mark a function that completes this argument."""
        ...

    @overload
    def __get__(self, instance: None, owner: type) -> "Completable[P, ReturnedT_co]": ...
    @overload
    def __get__(
        self: "Completable[Concatenate[OwnerT, Rest], ReturnedT_co]", instance: OwnerT, owner: type | None = None
    ) -> "Completable[Rest, ReturnedT_co]": ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind a method to its toolkit."""
        ...


def make_completable(function: Callable[..., Any], declaration: Declaration) -> None:
    """Give a function the method `complete`."""

    def complete(argument: str) -> Callable[[FunctionT], FunctionT]:
        names = [] if declaration.signature is None else list(declaration.signature.input.get("properties", {}))
        if declaration.signature is not None and argument not in names:
            known = f"it has {', '.join(names)}" if names else "it has none"
            raise declaration_error(function, f"no argument {argument!r} to complete; {known}", declaration.kind)

        def mark(completion: FunctionT) -> FunctionT:
            declaration.completions[argument] = _read_completion(completion, declaration)
            return completion

        return mark

    function.complete = complete  # type: ignore[attr-defined]


def bind_completion(completion: CompletionFunction) -> Binder:
    """Return the function that turns `typed` and `given` into what the completion function takes."""
    taken = completion.takes

    def bind(arguments: JsonObject, encoded: bytes | None = None) -> JsonObject:  # noqa: ARG001 - of Binder
        return {name: arguments[name] for name in taken}

    return bind


def _read_completion(function: Callable[..., Any], declaration: Declaration) -> CompletionFunction:
    if not inspect.isfunction(function):
        problem = f"{function!r} cannot complete; it is no function"
        raise declaration_error(declaration.function, problem, declaration.kind)
    hints, names = get_type_hints(function), list(inspect.signature(function).parameters)
    is_method = names[:1] == ["self"]
    rest = names[int(is_method) :]
    takes_context = bool(rest) and hints.get(rest[0]) is Context
    taken = tuple(rest[int(takes_context) :])
    if is_method != declaration.is_method or set(taken) - set(_TAKEN):
        form = "(self, ctx: Context, typed: str, given: Mapping[str, str])"
        raise declaration_error(
            function, f"a completion takes any of {form}; 'self' where the {declaration.kind} does", declaration.kind
        )
    return CompletionFunction(function, is_method, takes_context, taken)
