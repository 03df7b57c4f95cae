"""Files of tool definitions: one document, a list, a wrapped list, or JSON lines."""
