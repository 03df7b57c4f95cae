"""MCP clients: where each keeps its configuration, and how an entry for a server is written into it."""
