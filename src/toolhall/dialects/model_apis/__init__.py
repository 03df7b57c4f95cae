"""Function definitions for the APIs of model vendors, and bare function definitions: one catalog per module."""
