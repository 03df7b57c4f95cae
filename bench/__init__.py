"""Toolhall beside its peers and a raw ceiling: `make bench`, or `python -m bench --help`."""
