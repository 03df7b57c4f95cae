"""How a command ends badly: one line that says what to do, and an exit code."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CONFIG = 78  # sysexits.h, EX_CONFIG: it must not be started like this


class CommandFailed(Exception):
    """The command was refused or failed; the message is the one line that is printed."""

    outcome = "failed"  # as the log of calls puts it

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        self.message = message
        self.code = code
        super().__init__(message)


class WrongUsage(CommandFailed):
    """The command line itself is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, EXIT_USAGE)


class OutOfTime(CommandFailed):
    """The call was not answered in time."""

    outcome = "timed_out"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} seconds; allow more with --timeout")
