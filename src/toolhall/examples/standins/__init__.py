"""Stand-ins for what the example tools use elsewhere: small servers on this machine, which forget all when they end."""
