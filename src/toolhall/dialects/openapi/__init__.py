"""The REST interface as an OpenAPI 3.1 document."""
