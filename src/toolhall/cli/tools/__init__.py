"""`toolhall tool`: what is registered in a hall, looked at and changed, in its data folder or at its URL."""
