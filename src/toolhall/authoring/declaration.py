"""The `@tool` decorator and the Toolkit base class: they check options, and attach a Declaration to a function.

`@resource` and `@prompt`, which attach Declarations too, are beside this module.

The function itself is unchanged and can be called as before. A Toolkit groups tools that are shipped, versioned and
configured together.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypedDict, TypeVar, Unpack, get_args, get_type_hints, overload

import msgspec

from toolhall.authoring.context import Context
from toolhall.model.content import Notes
from toolhall.model.json import JsonObject
from toolhall.model.names import meta_key_problem, name_problem, version_problem
from toolhall.model.page import PAGE_META, PAGE_SCHEME, PERMISSIONS, Csp, origin_problem
from toolhall.model.requirements import AccountRequirement, Requirements, requirements_from_json, requirements_to_json
from toolhall.model.tool import (
    LEVELS,
    MAX_FRESH,
    MAX_KEEP_SECONDS,
    Annotations,
    Effect,
    Icon,
    Kind,
    Output,
    PromptInfo,
    ResourceInfo,
    Task,
    is_mime_type,
)
from toolhall.schema.annotations import header_parameters
from toolhall.schema.cost import BadSchema
from toolhall.schema.signature import BadSignature, Signature, pass_arguments, read_signature
from toolhall.schema.validator import Validator

_DECLARATION_ATTRIBUTE = "__toolhall__"
MAX_IN_LINE_SECONDS = 60
MAX_POLL_SECONDS = 3_600
_F = TypeVar("_F", bound=Callable[..., Any])
_SECRET_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
OAUTH_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,512}")  # one scope token of RFC 6749
_ACCOUNT_SPEC = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}(?::{OAUTH_SCOPE.pattern}(?: {OAUTH_SCOPE.pattern})*)?")


class RequirementOptions(TypedDict, total=False):
    """Requirement options of `@tool(...)` and of a Toolkit's class line; a tool requires what both declare."""

    secrets: tuple[str, ...] | list[str]  # ids in the vault; ctx.secret(...)
    account: str | tuple[str, ...] | list[str]  # "google:scope1 scope2"; ctx.account
    user_id: bool  # an authenticated user is required; ctx.user_id


class ToolOptions(RequirementOptions, total=False):
    """All options of `@tool(...)`; the comments give the defaults."""

    name: str  # the function's own name
    title: str
    description: str  # the docstring
    effect: Effect
    annotations: Annotations
    level: int  # 0 to 10; the toolkit's, else 1
    version: str  # the toolkit's, else 0.1.0
    timeout: float  # seconds; the hall's default
    isolated: bool  # run in a worker process, which can be killed and has limits; the toolkit's, else False
    task: bool | Task  # a long call: clients may get a task instead of waiting; True: Task(), else False
    tags: tuple[str, ...] | list[str]
    icons: tuple[Icon, ...] | list[Icon]
    meta: JsonObject
    returns: Any  # the type of the value, if the return annotation cannot express it
    input: JsonObject  # a JSON Schema of an object to publish; the function takes **arguments
    output: JsonObject  # a JSON Schema to publish unchanged
    page: str  # the ui:// URI of the page that shows its results
    page_only: bool  # for that page, not for models; False


class ToolkitOptions(RequirementOptions, total=False):
    """All options in the class line of a Toolkit subclass; the comments give the defaults."""

    name: str  # the class's name
    version: str  # 0.1.0
    level: int  # of tools that state none
    isolated: bool  # of tools that do not say
    tags: tuple[str, ...] | list[str]


def option_names(declared: Any) -> tuple[str, ...]:
    """The names of all options of a TypedDict; the shared requirement options come last."""
    shared = RequirementOptions.__annotations__
    return (*(name for name in declared.__annotations__ if name not in shared), *shared)


_OPTION_NAMES = option_names(ToolOptions)
_TOOLKIT_OPTION_NAMES = option_names(ToolkitOptions)


class BadDeclaration(TypeError):
    """An invalid tool declaration; the message names the file, the parameter and the fix."""

    def __init__(self, message: str, problem: str | None = None) -> None:
        self.problem = problem or message  # without the file and line, for a message with a better location
        super().__init__(message)


class CompletionFunction(msgspec.Struct, frozen=True):
    """A function that completes an argument: whether it takes `self` and a Context, and what it takes by name."""

    function: Callable[..., Any]
    is_method: bool
    takes_context: bool
    takes: tuple[str, ...]  # of "typed" and "given"


class Declaration(msgspec.Struct, frozen=True):
    """A function that is marked with `@tool`, `@resource` or `@prompt`, its options and its signature."""

    function: Callable[..., Any]
    options: ToolOptions
    is_method: bool
    takes_context: bool
    signature: Signature | None  # None while an annotation names a type that is not defined yet
    resource: ResourceInfo | None = None
    prompt: PromptInfo | None = None
    completions: dict[str, CompletionFunction] = {}  # by argument; filled by `@thing.complete(...)`

    @property
    def kind(self) -> Kind:
        """What the function is."""
        return "resource" if self.resource is not None else "prompt" if self.prompt is not None else "tool"

    @property
    def name(self) -> str:
        """The tool's name in its id."""
        return self.options.get("name") or self.function.__name__

    def resolve_signature(self) -> Signature:
        """The signature; BadDeclaration if an annotation still names an undefined type."""
        try:
            return self.signature or read_function(self.function, self.options, self.kind, is_method=self.is_method)[1]
        except NameError as error:
            raise declaration_error(
                self.function, f"{error}; import or define the type that an annotation names", self.kind
            ) from None


@overload
def tool(function: _F, /) -> _F: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[_F], _F]: ...


def tool(function: _F | None = None, /, **options: Unpack[ToolOptions]) -> _F | Callable[[_F], _F]:
    """Mark a function, or a method of a Toolkit, as a tool; it can still be called as before."""

    def mark(function: _F) -> _F:
        attach(function, declare(function, options, _OPTION_NAMES))
        return function

    return mark if function is None else mark(function)


def attach(function: Callable[..., Any], declaration: Declaration) -> None:
    """Mark a function with its Declaration."""
    setattr(function, _DECLARATION_ATTRIBUTE, declaration)


def declaration_of(candidate: object) -> Declaration | None:
    """The Declaration that `@tool` attached to a function, or None."""
    declaration = getattr(candidate, _DECLARATION_ATTRIBUTE, None)
    return declaration if isinstance(declaration, Declaration) else None


def declare(
    function: Callable[..., Any], options: ToolOptions, option_names: Sequence[str], kind: Kind = "tool"
) -> Declaration:
    """Return the Declaration of a function, with the options of its decorator; raises BadDeclaration."""
    if not inspect.isfunction(function):
        given = type(function).__name__
        raise BadDeclaration(f"@{kind} marks functions; {function!r} is a {given}; put @{kind} below other decorators")
    _check_options(function, options, option_names, kind)
    first = next(iter(inspect.signature(function).parameters), None)
    _check_function(function, first, kind)
    is_method = first == "self"
    try:
        takes_context, signature = read_function(function, options, kind, is_method=is_method)
    except NameError:  # a type that is defined later: resolve_signature tries again
        return Declaration(function, options, is_method, _first_is_named_context(function, is_method), None)
    return Declaration(function, options, is_method, takes_context, signature)


def _check_function(function: Callable[..., Any], first: str | None, kind: Kind) -> None:
    """Refuse functions that cannot be tools, resources or prompts."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        fix = "return a list, and report steps with ctx.progress" if kind == "tool" else "return a list"
        raise declaration_error(function, f"a {kind} cannot 'yield'; {fix}", kind)
    if first == "cls":
        problem = f"a class method cannot be a {kind}; make it a plain method with 'self'"
        raise declaration_error(function, problem, kind)


def _check_options(function: Callable[..., Any], options: ToolOptions, option_names: Sequence[str], kind: Kind) -> None:
    named = {"name": function.__name__} | dict(options)
    if problem := option_problem(named, option_names, f"@{kind}"):
        raise declaration_error(function, problem, kind)


def option_problem(options: Mapping[str, Any], option_names: Sequence[str], subject: str) -> str | None:
    """Return why these options of a subject (`@tool`, a Folder) are invalid, with the fix, or None."""
    unknown = sorted(set(options) - set(option_names))
    if unknown:
        known = ", ".join(option_names)
        return f"{subject} has no option {unknown[0]!r}; it takes {known}"
    level = options.get("level", 0)
    if type(level) is not int or level not in LEVELS:
        return f"level is {level!r}; use a whole number from 0 to 10"
    return next(_option_problems(options), None)


def _option_problems(options: Mapping[str, Any]) -> Iterator[str]:
    if "name" in options and (problem := name_problem(options["name"])):
        yield problem
    if "version" in options and (problem := version_problem(options["version"])):
        yield problem
    yield from requirement_problems(options)
    for option, (is_valid, fix) in _OPTION_CHECKS.items():
        if option in options and not is_valid(value := options[option]):
            yield f"{option} is {value!r}; {fix}"
            return
    yield from _page_problems(options)
    yield from _task_problems(options.get("task", False))
    for icon in options.get("icons", ()):
        if not icon.src.startswith(("https://", "data:image/")):
            yield f"icon {icon.src[:40]!r}: use an https: address or a data:image/ one"
    for key in options.get("meta", {}):
        if problem := meta_key_problem(key):
            yield problem


def _page_problems(options: Mapping[str, Any]) -> Iterator[str]:
    if "csp" in options and (problem := options["csp"].problem()):
        yield f"csp: {problem}"
    if options.get("page_only", False) and "page" not in options:
        yield "page_only is True without a page; write page='ui://...', the page that calls it"
    if "page" in options and PAGE_META in options.get("meta", {}):
        yield f"meta has {PAGE_META!r}, which page=... writes; leave one of them out"


def _task_problems(task: Any) -> Iterator[str]:
    """The problems of the option `task`, each with the fix."""
    if type(task) is bool:
        return
    if not isinstance(task, Task):
        yield f"task is {task!r}; use True, or Task(...)"
        return
    for name in ("required", "after_questions"):
        if type(getattr(task, name)) is not bool:
            yield f"Task.{name} is {getattr(task, name)!r}; use True or False"
    again: Any = task.again
    if again not in (None, True, False):
        yield f"Task.again is {again!r}; use True, False or None"
    if not (task.keep is None or _is_seconds(task.keep, MAX_KEEP_SECONDS)):
        yield f"Task.keep is {task.keep!r}; use seconds, more than 0 and at most {MAX_KEEP_SECONDS} (a week)"
    if task.in_line != 0 and not _is_seconds(task.in_line, MAX_IN_LINE_SECONDS):
        yield f"Task.in_line is {task.in_line!r}; use seconds, from 0 to {MAX_IN_LINE_SECONDS}"
    if not _is_seconds(task.poll, MAX_POLL_SECONDS):
        yield f"Task.poll is {task.poll!r}; use seconds, more than 0 and at most {MAX_POLL_SECONDS}"


def _is_seconds(value: Any, most: float) -> bool:
    return type(value) in (int, float) and 0.001 <= value <= most


def task_of(options: Mapping[str, Any]) -> Task | None:
    """The option `task` as a tool has it."""
    stated = options.get("task", False)
    return stated if isinstance(stated, Task) else Task() if stated else None


def requirement_problems(options: Mapping[str, Any]) -> Iterator[str]:
    """The problems of the requirement options, each with the fix."""
    secrets = options.get("secrets", ())
    if not isinstance(secrets, list | tuple) or not all(isinstance(each, str) for each in secrets):
        yield f"secrets is {secrets!r}; use a list such as ['TWILIO_API_KEY']"
    else:
        for each in secrets:
            if not _SECRET_ID.fullmatch(each):
                yield f"the secret {each!r}: use letters, digits, '_', '.' and '-', such as 'TWILIO_API_KEY'"
    accounts = _account_specs(options)
    for account in accounts:
        if not isinstance(account, str) or not _ACCOUNT_SPEC.fullmatch(account):
            yield f"account is {account!r}; write the provider and its scopes, such as 'google:calendar.events'"
    if type(options.get("user_id", False)) is not bool:
        yield f"user_id is {options['user_id']!r}; use True or False"


def merged_requirements(*declared: Mapping[str, Any]) -> JsonObject | None:
    """The requirements of a toolkit and its tool together, in OXP's format."""
    accounts = [_account_requirement(account) for options in declared for account in _account_specs(options)]
    secrets = [secret for options in declared for secret in options.get("secrets", ())]
    user_id = any(options.get("user_id", False) for options in declared)
    stated = Requirements(tuple(accounts), tuple(secrets), user_id)
    merged = requirements_from_json(requirements_to_json(stated))  # without duplicates
    return None if merged is None else requirements_to_json(merged)


def _account_specs(options: Mapping[str, Any]) -> tuple[Any, ...]:
    stated = options.get("account", ())
    return tuple(stated) if isinstance(stated, list | tuple) else (stated,)


def _account_requirement(account: str) -> AccountRequirement:
    provider, _, scopes = account.partition(":")
    return AccountRequirement(provider, tuple(scopes.split()))


def _is_instance(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _is_json_object(value: Any) -> bool:
    """Whether a value is a dict that survives a round trip through JSON."""
    try:
        return isinstance(value, dict) and msgspec.json.decode(msgspec.json.encode(value)) == value
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return False


def _is_list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(isinstance(part, kind) for part in value)


def _is_mime_type(value: Any) -> bool:
    return isinstance(value, str) and is_mime_type(value)


def is_page_uri(value: Any) -> bool:
    """Whether a value is the URI of a page; it may be a template."""
    return isinstance(value, str) and value.startswith(PAGE_SCHEME) and len(value) > len(PAGE_SCHEME)


def _is_list_of_permissions(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, str) and part in PERMISSIONS for part in value)


def _is_domain(value: Any) -> bool:
    return isinstance(value, str) and origin_problem(f"https://{value}") is None and "*" not in value


def _is_object_schema(schema: Any) -> bool:
    match schema:
        case {"type": "object"}:
            return True
        case _:
            return False


_OPTION_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "title": (_is_instance(str), "use a string"),
    "description": (_is_instance(str), "use a string"),
    "effect": (lambda value: value in get_args(Effect), f"use one of {', '.join(get_args(Effect))}"),
    "annotations": (_is_instance(Annotations), "use Annotations(...)"),
    "timeout": (lambda value: isinstance(value, int | float) and value > 0, "use a number of seconds, more than 0"),
    "isolated": (_is_instance(bool), "use True or False"),
    "tags": (_is_list_of(str), "use a list of strings"),
    "icons": (_is_list_of(Icon), "use a list of Icon(...)"),
    "meta": (_is_json_object, "use a dict of plain JSON values"),
    "input": (_is_object_schema, "use a JSON Schema of an object"),
    "output": (_is_instance(dict), "use a JSON Schema"),
    "mime_type": (_is_mime_type, "use a type and a subtype, such as 'text/markdown'"),
    "notes": (_is_instance(Notes), "use Notes(...)"),
    "size": (lambda value: type(value) is int and value >= 0, "use a number of bytes"),
    "fresh": (lambda value: type(value) in (int, float) and 0 <= value <= MAX_FRESH, "use seconds, at most a year"),
    "shared": (_is_instance(bool), "use True or False"),
    "listed": (_is_instance(bool), "use True or False"),
    "page": (is_page_uri, "use the URI of a page, such as 'ui://shop/orders'"),
    "page_only": (_is_instance(bool), "use True or False"),
    "csp": (_is_instance(Csp), "use Csp(...)"),
    "permissions": (_is_list_of_permissions, f"use a list of {', '.join(PERMISSIONS)}"),
    "prefers_border": (_is_instance(bool), "use True or False"),
    "domain": (_is_domain, "use a host, such as 'shop.example.com'"),
}


def read_function(
    function: Callable[..., Any], options: ToolOptions, kind: Kind = "tool", *, is_method: bool
) -> tuple[bool, Signature]:
    """Whether the function takes a Context, and its signature without it."""
    try:
        hints = get_type_hints(function, include_extras=True)
        visible = list(inspect.signature(function).parameters.values())[int(is_method) :]
        contexts = [parameter for parameter in visible if hints.get(parameter.name) is Context]
        _check_contexts(contexts, visible)
        hidden = int(is_method) + len(contexts)
        read = _explicit_signature if "input" in options else _inferred_signature
        signature = read(function, hidden, options)
        _check_schemas(signature)
        return bool(contexts), signature
    except BadSignature as error:
        raise declaration_error(function, str(error), kind) from None


def _check_contexts(contexts: list[inspect.Parameter], visible: list[inspect.Parameter]) -> None:
    if contexts and (contexts != visible[:1] or contexts[0].kind is inspect.Parameter.KEYWORD_ONLY):
        raise BadSignature(f"parameter '{contexts[-1].name}': the Context must be the first parameter, and only once")


def _check_schemas(signature: Signature) -> None:
    """Refuse a schema that cannot be registered, at its declaration."""
    for kind, schema in (("input", signature.input), ("output", signature.output.schema or {})):
        try:
            Validator(schema)
            header_parameters(schema if kind == "input" else {})
        except BadSchema as error:
            raise BadSignature(f"its {kind} schema cannot be served: {error}") from None


def _inferred_signature(function: Callable[..., Any], hidden: int, options: ToolOptions) -> Signature:
    signature = read_signature(function, hidden, options.get("returns"))
    return msgspec.structs.replace(signature, output=_explicit_output(options)) if "output" in options else signature


def _explicit_signature(function: Callable[..., Any], hidden: int, options: ToolOptions) -> Signature:
    """The signature of a tool with `input=`: the given schema, and arguments that are not decoded."""
    parameters = list(inspect.signature(function).parameters.values())[hidden:]
    if [parameter.kind for parameter in parameters] != [inspect.Parameter.VAR_KEYWORD]:
        raise BadSignature("a tool with input=... takes its arguments as '**arguments'")
    read = read_signature(function, hidden + 1, options.get("returns"))
    output = _explicit_output(options) if "output" in options else read.output
    given = options.get("input", {})
    schema = given if "properties" in given else {**given, "properties": {}}  # some clients require it
    return Signature(schema, output, pass_arguments)


def _explicit_output(options: ToolOptions) -> Output:
    return Output("schema", options.get("output", {}))


def _first_is_named_context(function: Callable[..., Any], is_method: bool) -> bool:
    first = list(inspect.signature(function).parameters.values())[int(is_method) :][:1]
    return bool(first) and str(first[0].annotation).rpartition(".")[2] == Context.__name__


def declaration_error(function: Callable[..., Any], problem: str, kind: Kind = "tool") -> BadDeclaration:
    """Return the error for a declaration, with the file and line of its function."""
    code = getattr(function, "__code__", None)
    location = f"{code.co_filename}:{code.co_firstlineno}: " if code else ""
    return BadDeclaration(f"{location}{kind} '{function.__name__}': {problem}", problem)


class Toolkit:
    """Subclass it and mark methods with `@tool`, `@resource` and `@prompt`; each instance is one toolkit."""

    toolkit_name: ClassVar[str] = "Toolkit"
    toolkit_options: ClassVar[ToolkitOptions] = {}

    def __init_subclass__(cls, **options: Unpack[ToolkitOptions]) -> None:
        super().__init_subclass__()
        problem = _toolkit_problem(cls.__name__, options)
        if problem:
            file = getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__
            raise BadDeclaration(f"{file}: toolkit '{cls.__name__}': {problem}")
        cls.toolkit_name = options.get("name", cls.__name__)
        cls.toolkit_options = {**cls.toolkit_options, **options}


def _toolkit_problem(class_name: str, options: ToolkitOptions) -> str | None:
    unknown: Any = sorted(set(options) - set(_TOOLKIT_OPTION_NAMES))
    if unknown:
        return f"a Toolkit has no option {unknown[0]!r}; it takes {', '.join(_TOOLKIT_OPTION_NAMES)}"
    level = options.get("level", 0)
    if type(level) is not int or level not in LEVELS:
        return f"level is {level!r}; use a whole number from 0 to 10"
    isolated: Any = options.get("isolated", False)
    if type(isolated) is not bool:
        return f"isolated is {isolated!r}; use True or False"
    if isinstance(options.get("tags", ()), str):
        return "tags is a string; use a list such as ['travel']"
    if problem := next(requirement_problems(options), None):
        return problem
    return name_problem(options.get("name", class_name)) or version_problem(options.get("version", "0.1.0"))
