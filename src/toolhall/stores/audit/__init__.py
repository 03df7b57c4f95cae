"""The audit on disk: chains of lines in segments, signed checkpoints, and how they are written, read and verified."""
