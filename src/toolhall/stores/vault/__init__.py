"""The vault: secrets encrypted at rest, decrypted only for the call that needs one."""
