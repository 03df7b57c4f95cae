"""Runs tools in remote tool servers: replicas and their leases, health, retries, and the transports to them.

`RemoteRunner` runs a call: `ReplicaPools` picks a `Replica`, whose `Transport` (HTTP or WebSocket) carries the call.
Two other parts keep the pools up to date: `LeaseManager` (which replicas exist, by their heartbeats) and `HealthProber`
(how they are, by probes). `replica` and `leases` explain the two mechanisms.
"""
