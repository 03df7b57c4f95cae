"""The Model Context Protocol, all supported revisions, over HTTP and stdio."""
