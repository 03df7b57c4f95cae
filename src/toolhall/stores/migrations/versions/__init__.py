"""One file for each revision; a released one never changes."""
