"""The public MCP client, of any server or hall: by URL, by command, or in memory; asynchronous and blocking."""
