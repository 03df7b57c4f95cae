"""Pages for people: where they say yes or no to a call, and where they add a passkey."""
