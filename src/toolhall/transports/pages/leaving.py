"""How a browser leaves for a provider, what it must bring back, and what it may do meanwhile."""

from toolhall.transports.asgi import Headers
from toolhall.transports.pages.html import HEADERS
from toolhall.transports.pages.html import Headers as Sent
from toolhall.transports.pages.place import Place
from toolhall.transports.pages.sessions import cookies_of

SECONDS = 600
_NAME = "toolhall-link-"
# Browsers hold a form to its policy through every redirect that follows, and providers send people around among
# several hosts of their own; so the policy can name no host. A hall on this machine may have a provider there, too.
_ANY = b"form-action 'self' https:"
_ANY_HERE = _ANY + b" http://localhost:* http://127.0.0.1:*"


class LinkCookies:
    """One for each link, so that two can be under way; the provider's redirect brings it, a form of others does not."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def read(self, headers: Headers, link_id: str) -> str | None:
        """What this browser was given for this link, once."""
        found = [value for name, value in cookies_of(headers) if name == self._name(link_id)]
        return found[0] if len(found) == 1 else None

    def given(self, link_id: str, nonce: str) -> tuple[bytes, bytes]:
        """The header that sets it; `Lax`, because the browser comes back from another site."""
        return self._said(link_id, nonce, SECONDS)

    def taken(self, link_id: str) -> tuple[bytes, bytes]:
        """The header that removes it."""
        return self._said(link_id, "", 0)

    def _said(self, link_id: str, value: str, seconds: int) -> tuple[bytes, bytes]:
        where = self._place.cookie_scope
        said = f"{self._name(link_id)}={value}; Max-Age={seconds}; HttpOnly; SameSite=Lax; {where}"
        return b"set-cookie", said.encode()

    def _name(self, link_id: str) -> str:
        return self._place.cookie_name(f"{_NAME}{link_id}")


def departing(place: Place) -> Sent:
    """The headers of a page whose form leads to a provider."""
    return _with(b"content-security-policy", b"form-action 'self'", _ANY if place.secure else _ANY_HERE)


def arrived() -> Sent:
    """The headers of the page that a provider leads to: its address, which holds a code, is told to nobody."""
    return _with(b"referrer-policy", b"same-origin", b"no-referrer")


def _with(name: bytes, old: bytes, new: bytes) -> Sent:
    return tuple((each, said.replace(old, new) if each == name else said) for each, said in HEADERS)
