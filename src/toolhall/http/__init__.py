"""HTTP: the ASGI application, its request checks and limits, and the REST, OXP, hub and Machine Context endpoints."""
