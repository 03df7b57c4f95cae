"""Calls tools of upstreams, MCP servers of somebody else: sessions by `share`, eras bridged, losses, life cycle.

`UpstreamManager` owns a `UpstreamConnection` for each upstream, which knows its state and keeps a `SessionPool`.
`UpstreamRunner` runs a call: it takes a session of the pool, sends the request, puts the questions of the upstream to
the caller, and repeats what provably did not run. `parked_calls` explains what happens where a client answers questions
with a later request, and the upstream waits for the answer inside its call.
"""
