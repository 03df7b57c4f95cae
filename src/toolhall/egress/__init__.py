"""SSRF-safe outbound HTTP: resolve once, check every address, connect to a checked address, bound the response."""
