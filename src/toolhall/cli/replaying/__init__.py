"""Runs recorded calls against tools as they are now, and tells what came out differently."""
