"""What a server holds in memory stays there: no file, no tool and no program that a tool starts gets it."""

import os
import sys
from collections.abc import Mapping

if sys.platform != "win32":
    import resource

_SECRET_VARIABLES = ("TOOLHALL_KEY", "TOOLHALL_OXP_SECRET", "TOOLHALL_PROVIDERS", "TOOLHALL_VAULT_KEY")


def leave_no_core() -> None:
    """No core dump: it would be a file with every secret in it."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def secrets_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which a hall is told its own secrets."""
    return {name: environment[name] for name in _SECRET_VARIABLES if name in environment}


def forget_secrets() -> None:
    """Once they were read: the environment is for every tool to read, and for every program that a tool starts."""
    for name in secrets_in(os.environ):
        del os.environ[name]
