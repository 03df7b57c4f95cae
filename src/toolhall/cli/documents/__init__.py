"""Files of definitions: read and written as one document, a list, a list in a wrapper, or JSON lines."""
