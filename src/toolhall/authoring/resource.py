"""The `@resource` decorator: a function whose return value is what a URI, or all URIs of a template, mean."""

import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, Union, Unpack, cast, get_args, get_origin, get_type_hints

import msgspec

from toolhall.authoring.completion import Completable, make_completable
from toolhall.authoring.declaration import (
    Declaration,
    RequirementOptions,
    ToolOptions,
    attach,
    declaration_error,
    declare,
    is_page_uri,
    option_names,
)
from toolhall.model.content import Notes, Resource
from toolhall.model.json import JsonObject
from toolhall.model.page import PAGE_META, PAGE_TYPE, Csp, PageInfo
from toolhall.model.tool import Icon, ResourceInfo
from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate

P = ParamSpec("P")
R = TypeVar("R")
_MIME_TYPES: dict[Any, str | None] = {str: "text/plain", bytes: "application/octet-stream", Resource: None, Any: None}
_JSON = "application/json"


class ResourceOptions(RequirementOptions, total=False):
    """All options of `@resource(uri, ...)`; the comments give the defaults."""

    name: str  # the function's own name
    title: str
    description: str  # the docstring
    mime_type: str  # by the return type: text/plain, application/octet-stream or application/json
    level: int  # 0 to 10; the toolkit's, else 1
    version: str  # the toolkit's, else 0.1.0
    timeout: float  # seconds; the hall's default
    tags: tuple[str, ...] | list[str]
    icons: tuple[Icon, ...] | list[Icon]
    meta: JsonObject
    notes: Notes  # whom it is for, how important it is, when it last changed
    size: int  # bytes, if known
    fresh: float  # seconds for which a client may keep it; 0
    shared: bool  # the same for every caller; False
    listed: bool  # True; False for what is only linked to
    csp: Csp  # of a ui:// page: the origins that it may use; none
    permissions: tuple[str, ...] | list[str]  # of a page: camera, microphone, geolocation, clipboard_write; none
    prefers_border: bool  # of a page: whether clients draw a border around it; theirs to decide
    domain: str  # of a page: the host that clients are asked to show it at


_OPTION_NAMES = option_names(ResourceOptions)
_STATED_OF_PAGES = frozenset({"csp", "permissions", "prefers_border", "domain"})


def resource(uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[Callable[P, R]], Completable[P, R]]:
    """Mark a function, or a method of a Toolkit, as what this URI means; with variables, all URIs of the template.

    It returns text, bytes, a value (as JSON), a Resource or several of them; None means that there is no such resource.
    """

    if callable(uri):  # `@resource` without parentheses
        raise declaration_error(uri, "it has no URI; write @resource('shop://policy')", "resource")

    def mark(function: Callable[P, R]) -> Completable[P, R]:
        declaration = declare(function, cast(ToolOptions, options), _OPTION_NAMES, "resource")
        declaration = msgspec.structs.replace(
            declaration,
            options=cast(ToolOptions, {**options, "effect": "reads", **_page_meta(uri, options)}),
            resource=_read_info(function, uri, options),
        )
        _check_variables(declaration, uri)
        _check_page(declaration, uri, options)
        attach(function, declaration)
        make_completable(function, declaration)
        return cast(Completable[P, R], function)

    return mark


def _read_info(function: Callable[..., Any], uri: str, options: ResourceOptions) -> ResourceInfo:
    return ResourceInfo(
        uri=uri,
        mime_type=PAGE_TYPE if is_page_uri(uri) else options.get("mime_type") or _returned_type(function),
        size=options.get("size"),
        notes=options.get("notes"),
        fresh=float(options.get("fresh", 0)),
        shared=options.get("shared", False),
        listed=options.get("listed", True),
        exact=is_page_uri(uri),
    )


def _page_meta(uri: str, options: ResourceOptions) -> JsonObject:
    """The option `meta` of a page, with what it states about itself."""
    if not is_page_uri(uri) or not _STATED_OF_PAGES.intersection(options):
        return {}
    info = PageInfo(
        csp=options.get("csp"),
        permissions=tuple(options.get("permissions", ())),
        domain=options.get("domain"),
        prefers_border=options.get("prefers_border"),
    )
    return {"meta": {PAGE_META: info.to_meta(), **options.get("meta", {})}}


def _check_page(declaration: Declaration, uri: str, options: ResourceOptions) -> None:
    """Raise BadDeclaration for a page that is no HTML, and for what only pages state."""
    function, stated = declaration.function, sorted(_STATED_OF_PAGES.intersection(options))
    if is_page_uri(uri):
        if options.get("mime_type", PAGE_TYPE) != PAGE_TYPE:
            raise declaration_error(function, f"a page is {PAGE_TYPE}; leave mime_type out", "resource")
        if _returned_type(function) == _JSON:
            raise declaration_error(function, "a page is an HTML document; return it as str", "resource")
        if stated and PAGE_META in options.get("meta", {}):
            problem = f"meta has {PAGE_META!r}, which {stated[0]}=... writes; leave one of them out"
            raise declaration_error(function, problem, "resource")
    elif stated:
        fix = "give it a URI such as 'ui://shop/orders', or leave the option out"
        raise declaration_error(function, f"{stated[0]} is for pages, and {uri} is none; {fix}", "resource")


def _check_variables(declaration: Declaration, uri: object) -> None:
    """Raise BadDeclaration unless the variables of the URI are the parameters of the function."""
    function = declaration.function
    if not isinstance(uri, str):
        raise declaration_error(
            function, f"the URI is {uri!r}; write @resource('shop://orders/{{number}}')", "resource"
        )
    try:
        template = UriTemplate(uri)
    except BadUriTemplate as bad:
        raise declaration_error(function, str(bad), "resource") from None
    schema = declaration.resolve_signature().input
    variables, parameters = set(template.variables), set(schema.get("properties", {}))
    if variables - parameters:
        missing = min(variables - parameters)
        raise declaration_error(function, f"the URI has the variable {missing!r}; add a parameter of it", "resource")
    if parameters - variables:
        extra = min(parameters - variables)
        fix = f"write it into the URI, for example {uri}{{?{extra}}}"
        raise declaration_error(function, f"parameter {extra!r} is no variable of the URI; {fix}", "resource")
    required = sorted(set(schema.get("required", ())) & set(template.query_variables))
    if required:
        raise declaration_error(
            function, f"parameter {required[0]!r} is in the query, which may be missing; give it a default", "resource"
        )


def _returned_type(function: Callable[..., Any]) -> str | None:
    """Return the MIME type that the return annotation implies, if it implies one."""
    try:
        hint = get_type_hints(function).get("return", Any)
    except NameError:  # a type that is defined later, so neither text nor bytes
        return _JSON
    options = [each for each in get_args(hint) if each is not type(None)] if _is_union(hint) else [hint]
    types_found = {_MIME_TYPES[each] if each in _MIME_TYPES else _of_value(each) for each in options}
    return types_found.pop() if len(types_found) == 1 else None


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _of_value(hint: Any) -> str | None:
    return None if Resource in get_args(hint) else _JSON
