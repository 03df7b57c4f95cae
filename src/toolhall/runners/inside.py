"""Whether this process is a worker: it imports the files of tools, and must not open a hall's own files again."""

_entered: list[bool] = []


def enter() -> None:
    """This process is a worker from now on."""
    _entered.append(True)


def is_worker() -> bool:
    """Whether it is one."""
    return bool(_entered)
