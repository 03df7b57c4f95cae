"""Runs tools: Python functions in the loop, in threads or in worker processes, and tools of remote tool servers."""
