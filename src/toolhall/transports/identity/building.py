"""Builds the identity that the settings ask for; what checks tokens is loaded only where there are any to check."""

import importlib
from collections.abc import Callable
from typing import Any

from toolhall.transports.identity.gate import Gate, Keys, Tokens
from toolhall.transports.identity.local import LocalIdentity
from toolhall.transports.identity.server import ServerIdentity
from toolhall.transports.identity.settings import IdentitySettings, Issuer, IssuerSettings, resource_of

LEAST_SECRET = 32
METRICS = "/metrics"
_RESERVED = ("local", "anonymous", "oxp")


class BadIdentity(ValueError):
    """A setting that proves nobody; the message names it and what to write."""


def build_identity(
    settings: IdentitySettings, keys: Keys, clock: Callable[[], float]
) -> LocalIdentity | ServerIdentity:
    """The identity of a profile; BadIdentity for settings that cannot work."""
    audiences = resource_of(settings).audiences
    issuers = tuple(map(_issuer, settings.issuers))
    _check(issuers, settings.oxp_secret)
    if issuers and not audiences:
        raise BadIdentity("'issuers' need to know what this server is called; set 'public_url' (or 'resource')")
    tokens: Tokens | None = None
    oxp: Tokens | None = None
    if issuers:
        fetch = _module("fetching").Fetcher(issuers, settings.egress_allow)
        tokens = _module("tokens").IssuedTokens(issuers, audiences, fetch, clock)
    if settings.oxp_secret is not None:
        oxp = _module("tokens").SharedTokens(settings.oxp_secret, audiences, clock)
    gate = Gate(keys, clock, tokens=tokens, oxp=oxp)
    if settings.profile == "local":
        return LocalIdentity(gate)
    public = [METRICS] if settings.public_metrics else []
    return ServerIdentity(gate, allow_anonymous=settings.allow_anonymous, public=public)


def _issuer(said: IssuerSettings) -> Issuer:
    audience = getattr(said, "audience", None)
    return Issuer(name=said.name, issuer=said.issuer, jwks_url=said.jwks_url, audience=audience)


def _check(issuers: tuple[Issuer, ...], secret: str | None) -> None:
    names = [each.name for each in issuers]
    for each in issuers:
        if each.name in _RESERVED or names.count(each.name) > 1:
            raise BadIdentity(f"issuers: the name {each.name!r} is taken; give each issuer a name of its own")
        for url in filter(None, (each.issuer, each.jwks_url)):
            if not _module("fetching").is_safe(url):
                raise BadIdentity(f"issuers: {url} must be an https URL")
    if len({each.issuer for each in issuers}) != len(issuers):
        raise BadIdentity("issuers: two have the same URL; leave out one")
    if secret is not None and len(secret.encode()) < LEAST_SECRET:
        raise BadIdentity(
            f"'oxp_secret' must have {LEAST_SECRET} bytes or more; make one with 'openssl rand -base64 33'"
        )


def _module(name: str) -> Any:
    """Loading httpx2 and joserfc takes longer than starting a hall that has no use for them."""
    return importlib.import_module(f"toolhall.transports.identity.{name}")
