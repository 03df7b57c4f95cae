"""Mounting: a hall below another path, in another ASGI application or behind a proxy that strips a prefix.

ASGI says in `root_path` where an application is mounted. By the specification (and in Starlette, FastAPI and uvicorn)
`path` then begins with it; some servers leave it out of `path`. `below_root` turns both into a scope whose `path` is
the hall's own, as all of the hall reads it, and keeps the prefix in `root_path` for links.

RFC 9728 puts the metadata of a resource at `https://host/hall/mcp` to `/.well-known/oauth-protected-resource/hall/mcp`,
which is outside of the mount. An application mounts the hall a second time, at that path, and the hall answers there
with these documents and with nothing else.

`Routes` is the other way round: applications of the author, served at paths beside the hall's own.
"""

import re
from collections.abc import Collection, Mapping
from urllib.parse import quote, unquote

from toolhall.transports.asgi import AsgiApp, Headers, Scope

METADATA = "/.well-known/oauth-protected-resource"
_ROUTE = re.compile(r"(/[^/?#%]+)+")


def below_root(scope: Scope, root: str) -> Scope:
    """The same connection as the hall sees it: its own path, and in `root_path` the prefix of its links."""
    root = root.rstrip("/")
    raw, inner = scope.get("raw_path") or b"", root
    outer = scope.get("app_root_path", "").rstrip("/")  # Starlette's: of the whole application, without the mount
    if outer and not f"{scope['path']}/".startswith(f"{root}/"):
        inner = root.removeprefix(outer)  # the proxy stripped that part, and the server did not put it back
    path = _stripped(scope["path"], inner)
    before, mark, after = root.partition(METADATA)
    if mark and (not after or after.startswith("/")):
        return {**scope, "path": METADATA + ("" if path == "/" else path), "raw_path": b"", "root_path": before + after}
    for begins in (quote(inner).encode(), inner.encode("utf-8", "replace")):
        if raw.startswith(begins + b"/"):
            raw = raw[len(begins) :]
            break
    else:
        raw = raw if unquote(raw.decode("latin-1")) == path else b""
    return {**scope, "path": path, "raw_path": raw, "root_path": root}


def base_of(scope: Scope, headers: Headers) -> str:
    """The address that the client used for the hall, with the prefix; the shield has checked the host."""
    origin = f"{scope.get('scheme', 'http')}://{headers.get(b'host', b'').decode('latin-1')}"
    return origin + quote(scope.get("root_path", ""))


def _stripped(path: str, root: str) -> str:
    if path == root:
        return "/"
    return path[len(root) :] if path.startswith(f"{root}/") else path


class Routes:
    """The author's own ASGI applications, each at a path and at all below it."""

    def __init__(self, routes: Mapping[str, AsgiApp], taken: Collection[str]) -> None:
        for path in routes:
            if not _ROUTE.fullmatch(path):
                raise ValueError(f"routes: {path!r} is no path; write it like '/webhook', without a slash at its end")
            theirs = next((own for own in taken if _overlaps(path, own.rstrip("/"))), None)
            if theirs is not None:
                raise ValueError(f"routes: {path!r} is in the way of the hall's own {theirs}; choose another path")
        self._routes = dict(sorted(routes.items(), key=lambda route: -len(route[0])))

    def find(self, scope: Scope) -> tuple[AsgiApp, Scope] | None:
        """The application of this path, and the connection as it sees it: mounted, as ASGI has it."""
        root = scope.get("root_path", "").rstrip("/")
        path = below_root(scope, root)["path"] if root else scope["path"]
        for route, app in self._routes.items():
            if path == route or path.startswith(f"{route}/"):
                return app, {**scope, "path": root + path, "root_path": root + route}
        return None


def _overlaps(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
