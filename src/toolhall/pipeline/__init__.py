"""What happens to every call, in order."""
