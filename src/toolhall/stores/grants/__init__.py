"""Grants: who may call what, as it is remembered."""
