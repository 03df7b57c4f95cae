"""`toolhall key`: API keys, made, listed and revoked, in a hall's data folder or at its URL."""
