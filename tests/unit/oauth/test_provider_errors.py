"""Tokens, codes and secrets are in no log, no error and no text, whatever goes wrong."""

import logging
from collections.abc import Iterator

import pytest

from tests.servers.account_broker import ALICE, SECRET, BrokerHarness, broker_harness, provider_settings
from tests.servers.authority import Authority
from tests.servers.http_server import HttpRequest, HttpResponse
from tests.servers.scripted_authority import ScriptedAuthority, json_response
from toolhall.model.errors import ToolhallError
from toolhall.oauth.providers import LinkFailed

CANARY = "c4nary-token-of-somebody"


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """All that this process logged, but for the provider, which runs in it too."""
    own = [each for each in caplog.records if not each.name.startswith("authlib")]
    return "\n".join(f"{each.name} {each.getMessage()} {each.exc_text or ''} {vars(each)}" for each in own)


def hidden(asked: list[HttpRequest]) -> Iterator[str]:
    """Whatever the hall sent that is nobody else's business."""
    yield SECRET
    for each in asked:
        for name in ("code", "code_verifier", "refresh_token", "token", "device_code"):
            if each.method == "POST" and name in each.form:
                yield each.form[name]


async def test_link_refresh_and_disconnect_log_no_tokens_codes_or_secrets(
    acme: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with broker_harness({"acme": provider_settings(acme.issuer)}) as hall:
        await hall.connect()
        hall.clock.now += 3600
        token = await hall.token()
        acme.down = True
        hall.clock.now += 3600
        with pytest.raises(ToolhallError) as failed:
            await hall.token()
        shown = [repr(token), repr(await hall.broker.accounts()), repr(failed.value), str(failed.value.detail)]
        (account,) = await hall.broker.accounts()
        await hall.broker.disconnect(account.id, ALICE)
    text = logged(caplog) + "".join(shown)
    secrets = {*hidden(acme.asked), *(each.access for each in acme.issued)}
    assert len(secrets) > 6
    assert [each for each in secrets if each in text] == []


@pytest.mark.parametrize("status", [200, 302, 400, 401, 500])
@pytest.mark.parametrize(
    "body",
    [
        {"error": CANARY, "error_description": CANARY},
        {"error": "invalid_grant", "error_description": CANARY, "error_uri": f"https://{CANARY}"},
        {"access_token": f"{CANARY}\n", "token_type": CANARY},
        {"access_token": CANARY, "token_type": CANARY},
        {"access_token": CANARY, "expires_in": CANARY},
    ],
    ids=["error", "description", "token", "type", "end"],
)
async def test_provider_error_response_is_in_no_log_or_error(
    scripted: ScriptedAuthority, caplog: pytest.LogCaptureFixture, status: int, body: dict[str, str]
) -> None:
    caplog.set_level(logging.DEBUG)
    scripted.token = lambda _: json_response(body, status)
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        failed = await failure(hall)
        link = await hall.broker.find_link(failed[0])
        assert CANARY not in failed[1] + repr(link) + logged(caplog)


@pytest.mark.parametrize("body", [CANARY.encode(), f'{{"access_token": {CANARY}}}'.encode(), b"\xff" + CANARY.encode()])
async def test_unreadable_provider_response_is_in_no_log_or_error(
    scripted: ScriptedAuthority, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    caplog.set_level(logging.DEBUG)
    scripted.token = lambda _: HttpResponse(200, body)
    async with broker_harness({"acme": provider_settings(scripted.issuer)}) as hall:
        assert CANARY not in (await failure(hall))[1] + logged(caplog)


async def failure(hall: BrokerHarness) -> tuple[str, str]:
    """The link that failed, and all that its error says."""
    link = await hall.begin()
    visit = await hall.agree(link)
    with pytest.raises(LinkFailed) as failed:
        await hall.broker.finish_redirect(visit.path, visit.query, visit.nonce)
    error = failed.value
    return link.id, f"{error!r} {error.message} {error.detail} {error.__cause__!r}"
