"""OpenAPI 3.1: the tools and the hall's own REST interface, described in one document."""
