"""What a tool promises, as pure functions: how two definitions differ, the digests of one, and the lock file."""
