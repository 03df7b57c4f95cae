"""The client half of MCP: sessions with servers of every revision, over HTTP or a child process."""
