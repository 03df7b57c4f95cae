"""Toolkit, the base class of tools that are shipped, versioned and configured together."""

import sys
from typing import Any, ClassVar, Unpack

from toolhall.authoring.declaration import BadDeclaration, RequirementOptions, option_names, requirement_problems
from toolhall.model.names import name_problem, version_problem
from toolhall.model.tool import LEVELS


class ToolkitOptions(RequirementOptions, total=False):
    """All options in the class line of a Toolkit subclass; the comments give the defaults."""

    name: str  # the class's name
    version: str  # 0.1.0
    level: int  # of tools that state none
    isolated: bool  # of tools that do not say
    tags: tuple[str, ...] | list[str]


_OPTION_NAMES = option_names(ToolkitOptions)


class Toolkit:
    """Subclass it and mark methods with `@tool`; each instance is one toolkit."""

    toolkit_name: ClassVar[str] = "Toolkit"
    toolkit_options: ClassVar[ToolkitOptions] = {}

    def __init_subclass__(cls, **options: Unpack[ToolkitOptions]) -> None:
        super().__init_subclass__()
        problem = _options_problem(cls.__name__, options)
        if problem:
            file = getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__
            raise BadDeclaration(f"{file}: toolkit '{cls.__name__}': {problem}")
        cls.toolkit_name = options.get("name", cls.__name__)
        cls.toolkit_options = {**cls.toolkit_options, **options}


def _options_problem(class_name: str, options: ToolkitOptions) -> str | None:
    unknown: Any = sorted(set(options) - set(_OPTION_NAMES))
    if unknown:
        return f"a Toolkit has no option {unknown[0]!r}; it takes {', '.join(_OPTION_NAMES)}"
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
