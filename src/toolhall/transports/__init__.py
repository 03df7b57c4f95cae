"""Bytes in, bytes out: who calls, is it sane, and which dialect speaks."""
