"""Removes secrets from results, logs and streams: known values in every encoding, unknown ones by their shape."""
