"""Lint rules for tool definitions: descriptions, schemas, metadata, and texts that attack a model."""
