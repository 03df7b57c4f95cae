"""The command line: parse, call the hall, print."""

from toolhall.cli.entry import main

__all__ = ["main"]
