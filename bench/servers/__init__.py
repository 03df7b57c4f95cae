"""The same tool on every server that is measured."""
