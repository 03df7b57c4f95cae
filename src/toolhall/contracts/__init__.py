"""A tool's contract as pure functions: definition diff, semantic version bump, digests and the lock file."""
