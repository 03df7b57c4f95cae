"""The tools known now: an immutable snapshot, swapped on every change."""
