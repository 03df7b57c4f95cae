"""The HTTP server: HTTP/1.1 and WebSockets with limits and timeouts, worker processes, reload, tool servers."""
