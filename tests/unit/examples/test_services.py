"""Whoever serves the examples gets the stand-ins with them, and the settings that lead there and nowhere else."""

import os
from urllib.request import urlopen

import pytest

from tests.harness.patience import patience
from toolhall.config import Config
from toolhall.examples._fakes.services import run_fake_services
from toolhall.examples.gmail import GMAIL_ADDRESS
from toolhall.examples.sms import SMS_ADDRESS
from toolhall.oauth.providers import ProviderSettings

OWN = ProviderSettings(client_id="mine")


def test_fake_services_set_config_and_environment_while_they_run() -> None:
    with run_fake_services(Config(egress_allow=("10.0.0.0/8",), providers={"github": OWN})) as config:
        gmail, texting = os.environ[GMAIL_ADDRESS], os.environ[SMS_ADDRESS]
        assert config.providers["google"].issuer == gmail
        assert config.providers["github"] is OWN
        assert set(config.egress_allow) == {"10.0.0.0/8", *(each.removeprefix("http://") for each in (gmail, texting))}
        with urlopen(f"{gmail}/.well-known/oauth-authorization-server", timeout=patience()) as reply:
            assert gmail.encode() in reply.read()
    assert not {GMAIL_ADDRESS, SMS_ADDRESS} & os.environ.keys()
    with pytest.raises(OSError, match="refused"):
        urlopen(gmail, timeout=patience())


def test_fake_services_keep_a_configured_google_provider() -> None:
    with run_fake_services(Config(providers={"google": OWN})) as config:
        assert config.providers == {"google": OWN}
        assert GMAIL_ADDRESS not in os.environ, "so that the tool asks the real one"
        assert len(config.egress_allow) == 1


def test_fake_services_in_server_profile_need_vault_key_and_public_url_for_a_provider() -> None:
    with run_fake_services(Config(profile="server")) as config:
        assert (config.providers, len(config.egress_allow)) == ({}, 1)
    with run_fake_services(Config(profile="server", vault_key="keyring")) as config:
        assert config.providers == {}
    with run_fake_services(Config(profile="server", vault_key="keyring", public_url="https://hall.example")) as config:
        assert list(config.providers) == ["google"]


def test_fake_services_end_when_the_hall_is_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt), run_fake_services(Config()):
        raise KeyboardInterrupt
    assert GMAIL_ADDRESS not in os.environ
