"""Parameters as cyclopts declares them: short names of options, and words that may begin with a hyphen."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from toolhall.cli.options import (
    CallOptions,
    GetPromptOptions,
    InspectOptions,
    ListToolsOptions,
    ReadOptions,
    SourceOptions,
)

# Without this, cyclopts would take `-` for an option.
File: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True)]
Target: TypeAlias = Annotated[str | None, Parameter(alias="-t")]
Yes: TypeAlias = Annotated[bool, Parameter(alias="-y")]


@dataclass(frozen=True)
class SourceParameters(SourceOptions):
    """SourceOptions with the short names of its options."""

    target: Target = None


@dataclass(frozen=True)
class ListToolsParameters(ListToolsOptions):
    """ListToolsOptions with the short names of its options."""

    target: Target = None


@dataclass(frozen=True)
class InspectParameters(InspectOptions):
    """InspectOptions with the short names of its options."""

    target: Target = None


@dataclass(frozen=True)
class ReadParameters(ReadOptions):
    """ReadOptions with the short names of its options."""

    target: Target = None
    out: Annotated[Path | None, Parameter(alias="-o")] = None


@dataclass(frozen=True)
class GetPromptParameters(GetPromptOptions):
    """GetPromptOptions with the short names of its options."""

    target: Target = None


@dataclass(frozen=True)
class CallParameters(CallOptions):
    """CallOptions with the short names of its options."""

    target: Target = None
    yes: Yes = False
