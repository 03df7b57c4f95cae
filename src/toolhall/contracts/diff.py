"""Everything that changed between two definitions, each change named breaking, feature or fix."""

from collections.abc import Sequence

from toolhall.contracts.changes import Change, ordered, under
from toolhall.contracts.promises import promises
from toolhall.contracts.shapes import input_changes, output_changes
from toolhall.model.tool import Tool
from toolhall.schema.walk import escape


def diff(old: Tool, new: Tool) -> list[Change]:
    """The changes from one definition of a tool to another, whatever versions they state; what breaks comes first."""
    return ordered([*input_changes(old.input, new.input), *output_changes(old.output, new.output), *promises(old, new)])


def diff_toolkit(old: Sequence[Tool], new: Sequence[Tool]) -> list[Change]:
    """The changes from one version of a toolkit to another: tools are known by their names in it."""
    before, after = ({tool.id.tool: tool for tool in tools} for tools in (old, new))
    found: list[Change] = []
    for name in sorted(before.keys() | after.keys()):
        path = f"/capabilities/{escape(name)}"
        if name not in after:
            found.append(Change("breaking", path, f"the tool {name!r} is gone"))
        elif name not in before:
            found.append(Change("feature", path, f"there is the tool {name!r}"))
        else:
            found += under(path, diff(before[name], after[name]))
    return ordered(found)
