"""What a server holds in memory stays there, also when it dies."""

import sys

if sys.platform != "win32":
    import resource


def leave_no_core() -> None:
    """No core dump: it would be a file with every secret in it."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
