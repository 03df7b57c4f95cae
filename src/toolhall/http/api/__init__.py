"""The management API below `/api`."""
