"""Machine Context Protocol: tool definitions with capabilities, and the messages that run them."""
