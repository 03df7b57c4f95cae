"""`toolhall factor`: what people prove themselves with when they approve a call."""
