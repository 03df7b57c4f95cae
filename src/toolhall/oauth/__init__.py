"""Linked accounts: the hall as an OAuth client of other services, on behalf of its users."""
