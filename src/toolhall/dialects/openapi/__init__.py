"""OpenAPI 3.1: tools as plain HTTP operations."""
