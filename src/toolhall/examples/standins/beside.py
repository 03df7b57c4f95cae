"""Starts the stand-ins beside a hall with the example tools, and opens the way to them."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec

from toolhall.accounts.providers import ProviderSettings
from toolhall.config import Config
from toolhall.examples.standins.addresses import GMAIL_ADDRESS, TEXTING_ADDRESS
from toolhall.examples.standins.authority import CLIENT_ID
from toolhall.examples.standins.google import READ_MAIL, Google
from toolhall.examples.standins.messages import Answer
from toolhall.examples.standins.running import Running
from toolhall.examples.standins.texting import Texting

PROVIDER = "google"


@contextmanager
def beside(config: Config) -> Generator[Config, None, None]:
    """The settings with the stand-ins in them, as long as these run; whoever has a Google of their own keeps it."""
    makes: dict[str, Callable[[str], Answer]] = {TEXTING_ADDRESS: Texting}
    # A server that can keep no accounts, or lead nobody to its pages, refuses to start with a provider.
    links_accounts = config.profile == "local" or None not in (config.vault_key, config.public_url)
    if PROVIDER not in config.providers and links_accounts:
        makes[GMAIL_ADDRESS] = lambda url: Google(url, config.public_url)
    running = Running(*makes.values())
    addresses = dict(zip(makes, running.urls, strict=True))
    os.environ.update(addresses)
    try:
        yield _with(config, addresses)
    finally:
        for name in addresses:
            os.environ.pop(name, None)
        running.close()


def _with(config: Config, addresses: dict[str, str]) -> Config:
    """A tool may reach the stand-ins' own ports, and nothing else on this machine."""
    hosts = (url.removeprefix("http://") for url in addresses.values())
    providers = dict(config.providers)
    if GMAIL_ADDRESS in addresses:
        # With what it is there for, so that 'toolhall account connect google' need not name it.
        google = ProviderSettings(issuer=addresses[GMAIL_ADDRESS], client_id=CLIENT_ID, scopes=(READ_MAIL,))
        providers[PROVIDER] = google
    return msgspec.structs.replace(config, egress_allow=(*config.egress_allow, *hosts), providers=providers)
