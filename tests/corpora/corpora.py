"""Corpora of published definitions: our own, and larger ones if they are beside the project."""

import os
from functools import cache
from pathlib import Path
from typing import Any

from toolhall.dialects.strict_json import decode

OWN = Path(__file__).parent / "own.jsonl"
FOLDER = Path(os.environ.get("TOOLHALL_CORPORA") or Path(__file__).parents[3] / "shared" / "accept" / "corpora")
FILES = [OWN, *(sorted(FOLDER.glob("*.jsonl")) if FOLDER.is_dir() else [])]


@cache
def definitions(file: Path) -> tuple[Any, ...]:
    """One definition per line."""
    return tuple(decode(line) for line in file.read_bytes().splitlines())
