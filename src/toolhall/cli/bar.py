"""A progress bar on the terminal, drawn with rich."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class RichBar:
    """Shown from the start, gone at the end; texts are never markup."""

    def __init__(self) -> None:
        columns = (BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
        said = TextColumn("{task.description}", markup=False)
        console = Console(stderr=True, markup=False, highlight=False)
        self._progress = Progress(*columns, said, console=console, transient=True)
        self._task = self._progress.add_task("")
        self._progress.start()

    def show(self, done: float, total: float | None, message: str) -> None:
        """Move it."""
        self._progress.update(self._task, completed=done, total=total, description=message)

    def write_above(self, line: str) -> None:
        """Write a line that stays."""
        self._progress.console.print(line, style="dim")

    def stop(self) -> None:
        """Take it away."""
        self._progress.stop()
