"""What can go wrong on the way out: either the hall says no, or the network does."""


class EgressRefused(Exception):
    """The hall itself does not go there; one line that may be logged, with what to change."""


class EgressFailed(Exception):
    """The other side could not be reached, or answered in a way that nobody should read; one line for the log."""
