"""The command line: parse, call the hall, print."""

from toolhall.cli.program import main

__all__ = ["main"]
