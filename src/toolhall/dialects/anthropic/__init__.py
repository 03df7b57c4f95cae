"""Tool definitions for Anthropic's API."""
