"""The command line: parses the arguments, calls the hall, prints the result."""

from toolhall.cli.entry import main

__all__ = ["main"]
