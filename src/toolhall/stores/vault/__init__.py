"""Secrets: kept sealed, opened for the call that needs one, shown to nobody."""
