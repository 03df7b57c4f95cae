"""`SMS.Send` sends by an API like Twilio's, with a key that nobody sees."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from toolhall import Context, ToolFailed
from toolhall.config import Config
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.examples._fakes.http_server import FakeRequest, FakeResponse, FakeServers, FakeService, json_response
from toolhall.examples._fakes.services import FakeSms, FakeTwilio
from toolhall.examples.sms import SMS, Sent
from toolhall.model.errors import NeedsRequirement
from toolhall.model.requirements import ResolvedCredentials
from toolhall.model.secret import Secret
from toolhall.testing import Client

KEY = "SK" + "0123456789abcdef" * 2
NUMBER = "+4915112345678"


@dataclass
class Served:
    """A stand-in on the wire."""

    answer: FakeService | None = None
    texting: FakeTwilio = field(default_factory=FakeTwilio)

    def __post_init__(self) -> None:
        self.running = FakeServers(lambda _: self.answer or self.texting)
        self.sms = SMS(self.running.urls[0])
        self.host = urlsplit(self.running.urls[0]).netloc

    def context(self, key: str = KEY) -> Context:
        return Context(
            equipment=ResolvedCredentials({"TWILIO_API_KEY": Secret(key)}), outside=LazyEgressClient((self.host,))
        )


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    with closing(served.running):
        yield served


async def test_sms_send_delivers_the_message(served: Served) -> None:
    assert await served.sms.send(served.context(), NUMBER, "Grüße & =?") == Sent("queued")
    assert list(served.texting.messages) == [FakeSms(NUMBER, "Grüße & =?")]


async def test_sms_send_called_through_a_hall_needs_its_secret(served: Served) -> None:
    config = Config(egress_allow=(served.host,))
    async with Client(served.sms, config=config, supplies={"TWILIO_API_KEY": KEY}) as client:
        assert await client.call(served.sms.send, to=NUMBER, message="hello") == Sent("queued")
    async with Client(served.sms, config=config) as client:
        with pytest.raises(NeedsRequirement, match="toolhall secret set TWILIO_API_KEY"):
            await client.call(served.sms.send, to=NUMBER, message="hello")
    assert len(served.texting.messages) == 1


@pytest.mark.parametrize("key", ["AC" + KEY[2:], KEY[:-1], f"{KEY}0", "no key at all"])
async def test_sms_send_with_wrong_key_fails_naming_the_fix_and_not_the_key(served: Served, key: str) -> None:
    with pytest.raises(ToolFailed, match="toolhall secret set TWILIO_API_KEY") as failed:
        await served.sms.send(served.context(key), NUMBER, "hello")
    assert key not in str(failed.value)
    assert not served.texting.messages


@pytest.mark.parametrize(
    ("to", "message", "words"),
    [
        ("0151 12345678", "hello", "the code of its country"),
        ("", "hello", "the code of its country"),
        (NUMBER, "", "1 to 1600"),
        (NUMBER, "x" * 1_601, "1 to 1600"),
    ],
)
async def test_sms_send_with_invalid_number_or_message_fails_naming_the_fix(
    served: Served, to: str, message: str, words: str
) -> None:
    with pytest.raises(ToolFailed, match=words):
        await served.sms.send(served.context(), to, message)
    assert not served.texting.messages


@pytest.mark.parametrize(
    "reply",
    [json_response({}, 500), json_response({"code": 1}, 400), json_response([], 404), FakeResponse(502, b"<html>")],
)
async def test_sms_send_with_failing_service_asks_to_try_again_later(reply: FakeResponse) -> None:
    served = Served(lambda _: reply)
    with closing(served.running), pytest.raises(ToolFailed, match="try again later"):
        await served.sms.send(served.context(), NUMBER, "hello")


async def test_sms_send_without_fake_service_fails_naming_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLHALL_EXAMPLES_SMS", raising=False)
    with pytest.raises(ToolFailed, match="toolhall serve"):
        await SMS().send(Context(), NUMBER, "hello")


def test_fake_twilio_other_requests_are_404() -> None:
    assert FakeTwilio()(FakeRequest("GET", "/2010-04-01/Messages.json", {}, {})).status == 404
