"""`toolhall approval`: what waits for a person's yes, and the decision."""
