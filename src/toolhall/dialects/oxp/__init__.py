"""Open Tool Calling, also called OXP 1.0."""
