"""`toolhall grant`: who may call what, in a hall's data folder or at its URL."""
