"""`toolhall audit`: who called what, and whether the record of it is as it was written."""
