"""JSON Schema: from Python types, cost limits, validation, defaults, and adaptation for weaker targets."""
