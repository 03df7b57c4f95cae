"""A tool server: a process that runs tools for a hall, which calls it over HTTP or over a socket that it opened."""
