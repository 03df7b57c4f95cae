"""Configuration files of MCP clients: where each keeps them, and how a server entry is written into them."""
