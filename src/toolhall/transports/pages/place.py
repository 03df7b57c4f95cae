"""Where people reach the pages of this hall."""

import ipaddress
import re
from urllib.parse import urlsplit

from toolhall.transports.asgi import Headers

_HERE = "localhost"
_ADDRESS = re.compile(r"\[.*\]|[0-9.]+")


class Place:
    """The public URL, or else where the hall listens; `port` is the right one once it does."""

    def __init__(self, public_url: str | None, port: int, host: str = _HERE) -> None:
        self.public_url = None if public_url is None else public_url.rstrip("/")
        self.port = port
        self._host = _linked(host)

    @property
    def url(self) -> str:
        """What links begin with; by name, because a passkey cannot belong to a bare address."""
        return self.public_url or f"http://{self._host}:{self.port}"

    @property
    def secure(self) -> bool:
        """Whether browsers come by https only."""
        return self.url.startswith("https://")

    def origin(self, headers: Headers) -> str:
        """The origin of a page as a browser names it; without a public URL, what it came by, which was checked."""
        if self.public_url is None:
            return f"http://{headers.get(b'host', b'').decode('latin-1').lower()}"
        parts = urlsplit(self.public_url)
        return f"{parts.scheme}://{parts.netloc}".lower()

    def host(self, headers: Headers) -> str | None:
        """What passkeys belong to (the relying party); None for a bare address, which they cannot."""
        host = urlsplit(self.origin(headers)).hostname or ""
        return None if not host or _ADDRESS.fullmatch(host) or ":" in host else host


def _linked(host: str) -> str:
    """How a link names what the hall listens on: this machine by its name, another address as it is."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_loopback or address.is_unspecified:
        return _HERE
    return f"[{host}]" if ":" in host else host
