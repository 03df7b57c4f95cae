"""SSRF-safe outbound HTTP: resolve once, check every address, connect to the checked address."""
