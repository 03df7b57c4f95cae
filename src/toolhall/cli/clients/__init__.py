"""Clients of halls and MCP servers: list and call tools, and manage a hall, in process or over HTTP."""
