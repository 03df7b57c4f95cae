"""Registration: validates tool definitions, enforces semantic versioning, stores records, activates tools."""
