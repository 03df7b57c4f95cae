"""Lint rules for definitions: descriptions, schemas, URIs, metadata, and texts that attack a model."""
