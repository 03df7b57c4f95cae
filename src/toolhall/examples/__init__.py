"""The example toolkit: small tools that work, one module for each kind."""
