"""`PublicUrl`: the address of the pages in links, cookies, origins and WebAuthn relying party ids."""

import hashlib
import ipaddress
import logging
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from toolhall.model.json import JsonObject

if TYPE_CHECKING:
    from toolhall.auth.authenticator import Headers, Scope

_log = logging.getLogger("toolhall.pages")
_LOCALHOST = "localhost"
_DIGEST_CHARACTERS = 8
_IP_ADDRESS = re.compile(r"\[.*\]|[0-9.]+")


class PublicUrl:
    """The configured public URL, or else the address the hall listens on; the server sets `port` once it listens."""

    def __init__(self, configured: str | None, port: int, host: str = _LOCALHOST) -> None:
        self.configured = None if configured is None else configured.rstrip("/")
        self.port = port
        self.prefix = urlsplit(self.configured or "").path  # before every path of the hall, as browsers see it
        self._host = _link_host(host)
        self._warned = False

    @property
    def url(self) -> str:
        """What links begin with; a host name where possible, because a passkey cannot belong to an IP address."""
        return self.configured or f"http://{self._host}:{self.port}{self.prefix}"

    def on_mounted(self, scope: "Scope") -> None:
        """Without a configured URL, take the path and port from the application that the hall is mounted in."""
        root = quote(scope["root_path"])
        if self.configured is None:
            self.prefix = root
            server = scope.get("server")
            if server and isinstance(server[1], int):
                self.port = server[1]
        elif not self._warned and not self.prefix.endswith(root):
            self._warned = True
            _log.warning(
                "the hall is mounted at %s, and links for people begin with public_url, which is %s: it must be the"
                " address of the hall with its path",
                root,
                self.configured,
            )

    @property
    def is_secure(self) -> bool:
        """Whether browsers use https."""
        return self.url.startswith("https://")

    def cookie_name(self, name: str) -> str:
        """Return a cookie name that no other hall on the same host uses, whatever its port or path.

        Cookies know no ports, so the name ends with a digest of the hall's URL. Browsers accept `__Host-` only with
        `Path=/`. A hall below a path limits its cookies to that path, because other programs answer at the rest of the
        host, so its names begin with the next best prefix, `__Secure-`.
        """
        own = f"{name}-{_digest(self.url)}"
        if not self.is_secure:
            return own
        return f"__Secure-{own}" if self.prefix else f"__Host-{own}"

    @property
    def cookie_scope(self) -> str:
        """The Path and Secure attributes of every cookie."""
        return f"Path={self.prefix or '/'}{'; Secure' if self.is_secure else ''}"

    def origin(self, headers: "Headers") -> str:
        """Return the origin of the pages; without a public URL, from the Host header, which the guard has checked."""
        if self.configured is None:
            return f"http://{headers.get(b'host', b'').decode('latin-1').lower()}"
        parts = urlsplit(self.configured)
        return f"{parts.scheme}://{parts.netloc}".lower()

    def relying_party_id(self, headers: "Headers") -> str | None:
        """Return the host that passkeys belong to; None for an IP address, to which WebAuthn binds none."""
        host = urlsplit(self.origin(headers)).hostname or ""
        return None if not host or _IP_ADDRESS.fullmatch(host) or ":" in host else host


def mcp_servers(name: str, url: str, *, with_key: bool) -> JsonObject:
    """Return what an MCP client's file has of the hall at this URL; with a key where connections prove nothing."""
    server: JsonObject = {"type": "http", "url": f"{url}/mcp"}
    if with_key:
        server["headers"] = {"Authorization": "Bearer ${TOOLHALL_KEY}"}
    return {"mcpServers": {name: server}}


def _link_host(host: str) -> str:
    """Return the host for links: `localhost` for loopback and wildcard addresses, any other as it is."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_loopback or address.is_unspecified:
        return _LOCALHOST
    return f"[{host}]" if ":" in host else host


@lru_cache
def _digest(url: str) -> str:
    return hashlib.sha256(url.lower().encode()).hexdigest()[:_DIGEST_CHARACTERS]
