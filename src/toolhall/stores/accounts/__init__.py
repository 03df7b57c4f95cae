"""The accounts that people have connected, and the links by which they do it."""
