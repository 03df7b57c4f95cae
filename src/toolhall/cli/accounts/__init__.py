"""`toolhall account`: what people have connected elsewhere, in a hall's data folder or at its URL."""
