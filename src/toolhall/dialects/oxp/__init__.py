"""OXP 1.0, also called Open Tool Calling: tool definitions, calls and errors."""
