"""What an operator can watch from outside: figures for Prometheus, and spans for OpenTelemetry."""
