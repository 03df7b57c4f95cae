"""Observability for operators: Prometheus metrics and OpenTelemetry spans."""
