"""`PublicUrl`: the address of the pages in links, cookies, origins and WebAuthn relying party ids."""

import ipaddress
import logging
import re
from urllib.parse import quote, urlsplit

from toolhall.auth.authenticator import Headers, Scope

_log = logging.getLogger("toolhall.pages")
_LOCALHOST = "localhost"
_NOT_COOKIE_NAME = re.compile("[^A-Za-z0-9.-]")
_IP_ADDRESS = re.compile(r"\[.*\]|[0-9.]+")


class PublicUrl:
    """The public URL, or else where the hall listens; `port` is the right one once it does."""

    def __init__(self, configured: str | None, port: int, host: str = _LOCALHOST) -> None:
        self.configured = None if configured is None else configured.rstrip("/")
        self.port = port
        self.prefix = urlsplit(self.configured or "").path  # before every path of the hall, as browsers see it
        self._host = _link_host(host)
        self._warned = False

    @property
    def url(self) -> str:
        """What links begin with; by name, because a passkey cannot belong to a bare address."""
        return self.configured or f"http://{self._host}:{self.port}{self.prefix}"

    def on_mounted(self, scope: Scope) -> None:
        """Take over where the hall is mounted, as far as no public URL says it."""
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
        """Whether browsers come by https only."""
        return self.url.startswith("https://")

    def cookie_name(self, name: str) -> str:
        """A cookie's name: of this hall only, also where another one has the same host.

        Browsers hold `__Host-` to `Path=/`. A hall below a path has its cookies sent to that path alone, because
        other programs answer at the rest of the host, so it takes the next best, `__Secure-`.
        """
        if not self.prefix:
            return f"__Host-{name}" if self.is_secure else name
        own = f"{name}{_NOT_COOKIE_NAME.sub('_', self.prefix)}"
        return f"__Secure-{own}" if self.is_secure else own

    @property
    def cookie_scope(self) -> str:
        """The attributes of every cookie that say where it goes."""
        return f"Path={self.prefix or '/'}{'; Secure' if self.is_secure else ''}"

    def origin(self, headers: Headers) -> str:
        """The origin of a page as a browser names it; without a public URL, what it came by, which was checked."""
        if self.configured is None:
            return f"http://{headers.get(b'host', b'').decode('latin-1').lower()}"
        parts = urlsplit(self.configured)
        return f"{parts.scheme}://{parts.netloc}".lower()

    def relying_party_id(self, headers: Headers) -> str | None:
        """What passkeys belong to (the relying party); None for a bare address, which they cannot."""
        host = urlsplit(self.origin(headers)).hostname or ""
        return None if not host or _IP_ADDRESS.fullmatch(host) or ":" in host else host


def _link_host(host: str) -> str:
    """How a link names what the hall listens on: this machine by its name, another address as it is."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_loopback or address.is_unspecified:
        return _LOCALHOST
    return f"[{host}]" if ":" in host else host
