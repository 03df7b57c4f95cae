"""How a tool's body is reached, one file for each way."""
