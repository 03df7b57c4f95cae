"""The option `task` of `@tool`: what it may be, and how mistakes are told where they are made."""

import re
from typing import Any

import msgspec
import pytest

from toolhall import BadDeclaration, Task, tool
from toolhall.authoring.definition import definitions_of
from toolhall.contracts.digest import compute_digests
from toolhall.model.tool import Annotations, Tool, may_run_again


def declared(**options: Any) -> Tool:
    @tool(**options)
    async def work() -> None:
        """Work."""

    return next(definitions_of(work)).tool


@pytest.mark.parametrize(
    ("stated", "expected"),
    [(False, None), (True, Task()), (Task(required=True, keep=60.0), Task(required=True, keep=60.0))],
)
def test_task_option_is_kept_with_the_tool(stated: Any, expected: Task | None) -> None:
    assert declared(task=stated).task == expected


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ("yes", "task is 'yes'; use True, or Task(...)"),
        (1, "task is 1; use True, or Task(...)"),
        (Task(required="yes"), "Task.required is 'yes'; use True or False"),  # type: ignore[arg-type]
        (Task(after_questions=1), "Task.after_questions is 1; use True or False"),  # type: ignore[arg-type]
        (Task(again="no"), "Task.again is 'no'; use True, False or None"),  # type: ignore[arg-type]
        (Task(keep=0), "Task.keep is 0; use seconds, more than 0 and at most 604800 (a week)"),
        (Task(keep=604_801), "Task.keep is 604801; use seconds, more than 0 and at most 604800 (a week)"),
        (Task(keep=True), "Task.keep is True; use seconds, more than 0 and at most 604800 (a week)"),
        (Task(poll=float("nan")), "Task.poll is nan; use seconds, more than 0 and at most 3600"),
    ],
)
def test_task_option_mistake_is_an_error_at_import_that_names_the_fix(stated: Any, problem: str) -> None:
    with pytest.raises(BadDeclaration, match=re.escape(f"tool 'work': {problem}")) as raised:
        declared(task=stated)
    assert str(raised.value).startswith(f"{__file__}:")


def test_tool_without_the_option_is_stored_and_digested_as_before() -> None:
    plain = declared()
    assert msgspec.convert({k: v for k, v in msgspec.to_builtins(plain).items() if k != "task"}, Tool) == plain
    digest = compute_digests(plain)
    assert compute_digests(declared(task=False)) == digest
    assert compute_digests(declared(task=True)).contract != digest.contract
    assert compute_digests(declared(task=Task(keep=5.0))).contract == compute_digests(declared(task=True)).contract


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"effect": "reads"}, True),
        ({"effect": "writes"}, False),
        ({"effect": "destroys"}, False),
        ({"annotations": Annotations(idempotent=True)}, True),
        ({"annotations": Annotations(read_only=True)}, True),
        ({"effect": "writes", "task": Task(again=True)}, True),
        ({"effect": "reads", "task": Task(again=False)}, False),
    ],
)
def test_tool_may_run_again_if_its_author_says_so_or_it_changes_nothing(
    options: dict[str, Any], *, expected: bool
) -> None:
    assert may_run_again(declared(**{"task": True, **options})) is expected


@pytest.mark.parametrize(
    "stated",
    [
        {"effect": "reads"},
        {"annotations": Annotations(idempotent=True, read_only=True)},
        {"effect": "writes", "task": Task(again=True)},
    ],
)
@pytest.mark.threat("I15")
def test_tool_of_an_upstream_may_not_run_again_whatever_it_says_of_itself(stated: dict[str, Any]) -> None:
    own = declared(**{"task": True, **stated})
    assert may_run_again(own)
    assert not may_run_again(msgspec.structs.replace(own, foreign=True, upstream_name="work"))
