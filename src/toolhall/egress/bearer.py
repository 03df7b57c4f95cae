"""A token for one place: it goes with requests to that origin, and with no others."""

from collections.abc import Generator

import httpx2

from toolhall.model.secret import Secret


class Bearer(httpx2.Auth):
    """Scheme, host and port must be those of `base_url`; a request elsewhere goes without the token."""

    def __init__(self, base_url: str, token: Secret) -> None:
        self._origin = _origin(httpx2.URL(base_url))
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Bring the token where it belongs."""
        if _origin(request.url) == self._origin:
            request.headers["authorization"] = f"Bearer {self._token.reveal()}"
        yield request


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)
