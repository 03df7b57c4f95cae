"""Persistence: one store per concern, in memory or in one SQLite file, plus the vault and the signed audit log."""
