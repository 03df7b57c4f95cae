"""Keys for one purpose each, made from the one root key of a data folder."""

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

API_KEYS = "toolhall api keys"
ROW_MACS = "toolhall row macs"
_BYTES = 32


def derived(root: bytes, purpose: str) -> bytes:
    """HKDF-SHA256: who learns one of them learns neither the root nor any other."""
    return HKDF(SHA256(), _BYTES, salt=None, info=purpose.encode()).derive(root)
