"""Which tools a setting or an option means: `Calendar.*`, `Weather.Get@*`, `*`."""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def means(globs: Iterable[str], tool_id: str) -> bool:
    """Whether any of these matches a tool's id; one that names no version means all of them."""
    unversioned = tool_id.partition("@")[0]
    return any(fnmatchcase(tool_id, glob) or fnmatchcase(unversioned, glob) for glob in globs)
