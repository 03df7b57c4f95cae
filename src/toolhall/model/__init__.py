"""Plain frozen data that every layer shares: tools, calls, callers, results and errors."""
