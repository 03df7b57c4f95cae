"""Linked accounts: the hall as an OAuth client of other services, for the people who call its tools."""
