"""Lint: what can be read but should be written better, or looks like an attack on the model that reads it."""
