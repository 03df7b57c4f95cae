"""The HTTP server: uvicorn with connection limits and timeouts, worker processes, reload, tool servers."""
