"""The hub Tool API: tools with methods, tool_request and tool_response."""
