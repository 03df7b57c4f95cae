"""The hub's message protocol, spoken by its clients and between a hall and its tool servers."""
