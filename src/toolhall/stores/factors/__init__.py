"""The ways in which people prove who they are: codes of an authenticator, passkeys."""
