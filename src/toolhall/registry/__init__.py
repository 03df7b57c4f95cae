"""The tools that are served now: an immutable snapshot, replaced as a whole by every change."""
