"""Runs tools in remote tool servers: replicas and their leases, health, retries, and the transports to them."""
