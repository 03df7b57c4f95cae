"""Tool definitions for Google's Gemini API."""
