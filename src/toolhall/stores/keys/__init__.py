"""API keys: their text, what is kept of them, and the ring that knows whose a text is."""
