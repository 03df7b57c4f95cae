"""The moving parts of MCP: sessions, streams, subscriptions, rounds of questions."""
