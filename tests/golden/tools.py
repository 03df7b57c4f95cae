"""Two tools for the golden files."""

from toolhall import Toolkit, tool


class Golden(Toolkit, version="1.0.0"):
    """Tools of the golden files."""

    @tool(effect="reads")
    def add(self, a: int, b: int = 1) -> int:
        """Add two whole numbers."""
        return a + b

    @tool(effect="writes", level=5)
    def store(self, text: str) -> str:
        """Store a text."""
        return text
