"""Tool definitions for OpenAI's APIs."""
