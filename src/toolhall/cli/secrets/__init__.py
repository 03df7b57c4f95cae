"""`toolhall secret`: what tools need and nobody may read, in a hall's data folder or at its URL."""
