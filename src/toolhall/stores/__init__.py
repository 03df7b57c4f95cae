"""What must be remembered: records, keys."""
