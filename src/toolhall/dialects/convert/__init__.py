"""Conversion of tool definitions between dialects, with every loss reported and recorded for the way back."""
