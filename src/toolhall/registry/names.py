"""The names that one tool alone may have, in every dialect; nothing that looks the same may be called for another."""

from toolhall.dialects.oxp.catalog import part
from toolhall.model.lookalikes import look
from toolhall.model.tool import Tool


def key_of(tool: Tool) -> str:
    """`Toolkit.tool`, which all versions share."""
    return f"{tool.id.toolkit}.{tool.id.tool}"


def claims(tool: Tool) -> tuple[str, ...]:
    """What no other tool may claim: letter case, accents and scripts do not tell two apart. Versions share it all."""
    in_oxp = f"oxp:{part(tool.id.toolkit)}.{part(tool.id.tool)}".casefold()  # which knows fewer letters
    return tool.name.casefold(), look(key_of(tool)), look(tool.stated or tool.name), in_oxp


def twin_problem(tool: Tool, other: str) -> str:
    """Why a tool cannot stand beside the one whose id is `other`."""
    return (
        f"{tool.id} would be published as {tool.name!r}, which some dialect cannot tell apart from {other}; "
        "rename one of them, in code with @tool(name=...)"
    )


class Claims:
    """Who holds which claim; the versions of a tool hold theirs together."""

    def __init__(self) -> None:
        # By claim: the ids that hold it, each with its toolkit and tool; `a.b` `c` and `a` `b.c` are two tools.
        self._held: dict[str, dict[str, tuple[str, str]]] = {}

    def other(self, tool: Tool) -> str | None:
        """The id of another tool that holds one of this tool's claims."""
        own = (tool.id.toolkit, tool.id.tool)
        holders = (holder for claim in claims(tool) for holder in self._held.get(claim, {}).items())
        return next((tool_id for tool_id, key in holders if key != own), None)

    def take(self, tool: Tool) -> None:
        """One version more holds its claims."""
        for claim in claims(tool):
            self._held.setdefault(claim, {})[str(tool.id)] = (tool.id.toolkit, tool.id.tool)

    def release(self, tool: Tool) -> None:
        """One version less."""
        for claim in set(claims(tool)):
            del self._held[claim][str(tool.id)]
            if not self._held[claim]:
                del self._held[claim]
