"""Management over HTTP, below `/api`: what is registered, in which state, and every change of that."""
