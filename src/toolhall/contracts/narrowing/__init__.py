"""Whether one JSON Schema accepts all that another one does: a proof, or the gaps that keep it from being one."""
