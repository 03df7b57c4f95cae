"""Tools that run in tool servers: the lines to them, and which of them runs a call."""
