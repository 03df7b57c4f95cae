"""JSON Schema compatibility proof: whether one schema accepts all that another one does, or the counterexamples."""
