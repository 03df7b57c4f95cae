"""The way out of the hall: what it connects to on behalf of others is checked first, and what comes back is bounded."""
