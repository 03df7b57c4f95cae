"""Csp and PageInfo: what a `ui://` page may load, and how a client shows it (MCP Apps 2026-01-26).

A client shows a page in a frame without any rights. What a page states here, the client puts into the frame's policy,
so a text that could end a directive and begin another is refused.
"""

import re

import msgspec

from toolhall.model.json import JsonObject

PAGE_SCHEME = "ui://"
PAGE_TYPE = "text/html;profile=mcp-app"
PAGE_META = "ui"  # the member of `_meta`, of pages and of tools that show one
PERMISSIONS = {
    "camera": "camera", "microphone": "microphone", "geolocation": "geolocation", "clipboard_write": "clipboardWrite",
}  # fmt: skip
MAX_ORIGINS = 64
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ORIGIN = re.compile(rf"(?:https|wss)://(?:\*\.)?{_LABEL}(?:\.{_LABEL})*(?::[1-9][0-9]{{0,4}})?", re.IGNORECASE)
_LOOPBACK = re.compile(r"(?:http|ws)://(?:localhost|127\.0\.0\.1)(?::[1-9][0-9]{0,4})?", re.IGNORECASE)


class Csp(msgspec.Struct, frozen=True, kw_only=True):
    """The origins that a page may use, such as `https://api.example.com`; nothing stated means none.

    `connect`: requests; `resources`: scripts, styles, images, fonts; `frames`: pages in it; `base_uris`: its base.
    """

    connect: tuple[str, ...] | list[str] = ()
    resources: tuple[str, ...] | list[str] = ()
    frames: tuple[str, ...] | list[str] = ()
    base_uris: tuple[str, ...] | list[str] = ()

    def problem(self) -> str | None:
        """Why this policy cannot be published, with the fix, or None."""
        for name in self.__struct_fields__:
            origins: object = getattr(self, name)
            if not isinstance(origins, list | tuple):
                return f"{name} is {origins!r}; use a list such as ['https://api.example.com']"
            if len(origins) > MAX_ORIGINS:
                return f"{name} has {len(origins)} origins; {MAX_ORIGINS} are enough"
            for origin in origins:
                if problem := origin_problem(origin):
                    return f"{name}: {problem}"
        return None


def origin_problem(origin: object) -> str | None:
    """Why this is no origin that a page may use, with the fix, or None."""
    if isinstance(origin, str) and (_ORIGIN.fullmatch(origin) or _LOOPBACK.fullmatch(origin)):
        return None
    return f"{str(origin)[:80]!r} is no origin; write https:// and a host, such as 'https://api.example.com'"


class PageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a page states beside its policy; `domain` is the origin that the client is asked to show it at."""

    csp: Csp | None = None
    permissions: tuple[str, ...] = ()  # of PERMISSIONS
    domain: str | None = None
    prefers_border: bool | None = None

    def to_meta(self) -> JsonObject:
        """As `_meta.ui` of the page."""
        meta: JsonObject = {}
        if self.csp is not None:
            stated = {
                "connectDomains": self.csp.connect,
                "resourceDomains": self.csp.resources,
                "frameDomains": self.csp.frames,
                "baseUriDomains": self.csp.base_uris,
            }
            meta["csp"] = {name: list(origins) for name, origins in stated.items() if origins}
        if self.permissions:
            meta["permissions"] = {PERMISSIONS[each]: {} for each in self.permissions}
        if self.domain is not None:
            meta["domain"] = self.domain
        if self.prefers_border is not None:
            meta["prefersBorder"] = self.prefers_border
        return meta
