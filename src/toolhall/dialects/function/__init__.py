"""Bare function descriptions, as benchmarks and catalogues publish them."""
