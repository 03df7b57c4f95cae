"""Protocols as pure functions: bytes to model and back; no I/O, no clock, no randomness."""
