"""What the benchmark reads of Toolhall beside its tool: a resource and a prompt."""

from toolhall import prompt, resource


@resource("bench://notes")
async def notes() -> str:
    """A text that never changes."""
    return "What is written here never changes."


@prompt
async def greeting() -> str:
    """Greet somebody."""
    return "Say hello."
