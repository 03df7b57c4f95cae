"""Where a command finds tools: in a target on this machine, or at a URL."""
