"""What people said to calls that needed their yes."""
