"""The examples of the documentation, each a file that runs."""
