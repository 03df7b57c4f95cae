"""Authentication: turns the credential or the connection of a request into a `Caller`.

A caller is proven by a credential or by the connection, never by what a message claims."""
