"""Registered tools in one SQLite file."""
