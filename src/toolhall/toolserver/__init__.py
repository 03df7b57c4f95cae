"""The tool server process: runs tools for a hall that it joined, over HTTP or over a WebSocket to the hall."""
