"""The audit log on disk: hash-chained segments and signed checkpoints, and how they are written, read and verified."""
