"""JSON Schema: made from Python types, bounded at registration, compiled for the call."""
