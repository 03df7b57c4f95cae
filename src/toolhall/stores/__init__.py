"""What must be remembered: records, keys, registered tools."""
