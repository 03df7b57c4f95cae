"""The error tree: complete, documented, and translated into every dialect."""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping

import pytest

from toolhall import dialects
from toolhall.dialects.mcp.errors import ErrorResult, ProtocolError, translate_error
from toolhall.model import errors
from toolhall.model.errors import (
    BadArguments,
    Broken,
    Failed,
    Limited,
    Problem,
    Refused,
    ToolFailed,
    ToolhallError,
    Unsupported,
)


def tree(kind: type[ToolhallError]) -> set[type[ToolhallError]]:
    """A kind of error and all below it that the model defines."""
    own = [below for below in kind.__subclasses__() if below.__module__ == errors.__name__]
    return {kind}.union(*map(tree, own))


def made(kind: type[ToolhallError]) -> ToolhallError:
    """An error of this kind."""
    if issubclass(kind, BadArguments):
        return kind([Problem("/a", "is wrong")])
    if issubclass(kind, Limited):
        return kind(1.5)
    if issubclass(kind, Unsupported):
        return kind("elicitation")
    return kind()


ALL = sorted(tree(ToolhallError), key=lambda kind: kind.__name__)
ENDINGS = [kind for kind in ALL if kind not in (ToolhallError, Refused, Failed)]
by_name = pytest.mark.parametrize("kind", ENDINGS, ids=lambda kind: kind.__name__)


def test_tree_has_branches_refused_and_failed() -> None:
    assert {kind for kind in ALL if kind.__base__ is ToolhallError} == {Refused, Failed}


@by_name
def test_every_error_derives_from_a_branch(kind: type[ToolhallError]) -> None:
    assert issubclass(kind, Refused) != issubclass(kind, Failed)


TABLES: dict[str, Mapping[type, object]] = {
    module.name: importlib.import_module(module.name).TABLE
    for module in pkgutil.walk_packages(dialects.__path__, f"{dialects.__name__}.")
    if module.name.endswith(".errors")
}


def test_error_tables_include_mcp() -> None:
    assert "toolhall.dialects.mcp.errors" in TABLES


def test_every_error_is_in_every_dialect_table(subtests: pytest.Subtests) -> None:
    for dialect, table in TABLES.items():
        with subtests.test(repr(dialect)):
            missing = {kind.__name__ for kind in ENDINGS if kind not in table}
            assert not missing, f"add them to {dialect}.TABLE"


def test_error_tables_list_only_errors_of_the_tree(subtests: pytest.Subtests) -> None:
    for dialect, table in TABLES.items():
        with subtests.test(repr(dialect)):
            assert set(table) <= set(ALL)


@by_name
def test_mcp_translates_every_error(kind: type[ToolhallError]) -> None:
    assert isinstance(translate_error(made(kind)), ProtocolError | ErrorResult)


def test_every_error_is_in_the_module_docstring_and_has_one(subtests: pytest.Subtests) -> None:
    for kind in ALL:
        with subtests.test(repr(kind)):
            assert kind.__name__ in (inspect.getdoc(errors) or ""), "draw it in the tree on top of the file"
            assert (kind.__doc__ or "").endswith("."), "say in one sentence what it means"


@by_name
def test_error_without_message_has_a_default(kind: type[ToolhallError]) -> None:
    error = made(kind)
    assert error.message
    assert str(error) == error.message
    assert error.message != ToolhallError.message, "give it a message of its own"


def test_error_detail_is_not_in_its_text() -> None:
    error = ToolFailed("it broke", detail="at line 3 of secret.py")
    assert (str(error), error.message, error.detail) == ("it broke", "it broke", "at line 3 of secret.py")
    assert "secret" not in repr(error)


def test_bad_arguments_message_lists_problems_with_paths() -> None:
    error = BadArguments([Problem("/a", "is wrong"), Problem("", "is missing")])
    assert error.message == "the arguments do not match the tool's input schema: /a: is wrong; /: is missing"
    assert error.problems == (Problem("/a", "is wrong"), Problem("", "is missing"))


def test_limited_has_retry_after() -> None:
    error = Limited(1.26)
    assert (error.retry_after, error.message) == (1.26, "too many calls: try again in 1.3 seconds")


def test_unsupported_names_the_feature() -> None:
    assert Unsupported("sampling").message == "this tool needs a client that supports sampling"


def test_unlisted_error_is_translated_like_its_parent() -> None:
    class HotelFull(ToolFailed):
        pass

    assert translate_error(HotelFull("no room")) == ErrorResult("no room")


def test_foreign_exception_is_translated_without_its_text() -> None:
    class Odd(ToolhallError):
        pass

    assert translate_error(Odd("the password is hunter2")) == ProtocolError(-32603, Broken.message)
