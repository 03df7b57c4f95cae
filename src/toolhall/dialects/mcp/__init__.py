"""Model Context Protocol, in its three live revisions."""
