"""Registration: definitions are validated, held to their contracts, remembered, and served once they are active."""
