"""`toolhall task list`, `show` and `cancel`: everybody's long calls."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from toolhall.cli.clients.management import open_management
from toolhall.cli.hall_options import HallOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import GREEN, RED, YELLOW, note, print_answer_json, print_rows, visible
from toolhall.model.json import JsonObject

MAX_TASKS = 1_000
_DEFAULTS = HallOptions()
_COLUMNS = ("id", "tool", "caller", "state", "created", "waits for")
_COLOURS = {"completed": GREEN, "failed": RED, "cancelled": RED, "input_required": YELLOW}
_UNREADABLE = "the key of the vault is not here"


@dataclass(frozen=True)
class TaskListOptions(HallOptions):
    """Options of `toolhall task list`.

    Parameters
    ----------
    state
        Only those in this state; open: those that have not ended.
    tool
        Only those of this tool: its id, or Toolkit.tool for all versions.
    caller
        Only those of this caller.
    limit
        How many, the newest first.
    """

    state: Literal["open", "working", "input_required", "completed", "failed", "cancelled"] | None = None
    tool: str | None = None
    caller: str | None = None
    limit: Annotated[int, Parameter(name=("--limit", "-n"))] = 100


_LIST_DEFAULTS = TaskListOptions()


def list_tasks(*, options: Annotated[TaskListOptions, Parameter(name="*")] = _LIST_DEFAULTS) -> None:
    """List everybody's long calls, without their arguments and results."""
    start_logging(None)
    query = {"state": options.state, "tool": options.tool, "caller": options.caller, "limit": str(options.limit)}
    with open_management(options) as client:
        page = client.request("GET", "tasks", query=query)
        found: list[JsonObject] = page["tasks"]
        if options.json:
            print_answer_json(found)
            return
        if found:
            print_rows(_COLUMNS, map(_row, found), _COLOURS)
        else:
            note("there are no such tasks")
        if "nextCursor" in page:
            note(f"there are more; list up to {MAX_TASKS} with --limit, or fewer with --state, --tool and --caller")


def _row(task: JsonObject) -> tuple[str, ...]:
    return (task["id"], task["tool"], _caller(task), task["state"], task["createdAt"], _questions(task))


def _caller(task: JsonObject) -> str:
    return f"{task['caller']} for {task['actingFor']}" if task["actingFor"] else str(task["caller"])


def _questions(task: JsonObject) -> str:
    return _UNREADABLE if task["questions"] is None else "; ".join(task["questions"])


def show(task: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Show a long call, without its arguments and its result.

    Parameters
    ----------
    task
        Its id, as toolhall task list shows it.
    """
    start_logging(None)
    with open_management(options) as client:
        found = client.request("GET", "tasks", task)
        if options.json:
            print_answer_json(found)
            return
        facts = {
            "tool": found["tool"],
            "caller": f"{_caller(found)}, by {found['dialect']}",
            "state": f"{found['state']} ({found['error']})" if found["error"] else found["state"],
            "waits for": _questions(found) or "nothing",
            "attempts": str(found["attempts"]),
            "created": found["createdAt"],
            "changed": found["updatedAt"],
            "expires": found["expiresAt"],
        }
        print(visible(found["id"]))
        for name, value in facts.items():
            print(visible(f"  {name:<10}{value}"))


def cancel(task: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Cancel a long call; one that has ended stays as it is.

    Parameters
    ----------
    task
        Its id, as toolhall task list shows it.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        answer = client.request("POST", "tasks", task, "cancel")
    if options.json:
        print_answer_json(answer)
    else:
        print(visible(f"{answer['id']} is {answer['state']}"))
