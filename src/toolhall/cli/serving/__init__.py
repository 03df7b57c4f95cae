"""The ways to serve: one process, one that reloads, several, or standard input and output."""
