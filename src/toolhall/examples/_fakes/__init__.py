"""Fakes of the services that the example tools use: local servers that forget everything when they stop."""
