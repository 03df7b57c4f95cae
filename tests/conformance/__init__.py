"""External judges of the MCP face: the official suite, real clients, schemas, and the wire itself."""
