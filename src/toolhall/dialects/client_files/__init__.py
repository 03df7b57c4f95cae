"""Files in which MCP clients list their servers, and the MCP registry's `server.json`, read as upstreams."""
