"""`Gmail.GetEmails` reads mail from an API like Gmail's, with the user's own token and nobody else's."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from tests.unit.examples.oauth_client import Clock, ProviderHarness
from toolhall import Context, ToolFailed
from toolhall.config import Config
from toolhall.egress.addresses import EgressRefused
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.examples._fakes.http_server import FakeRequest, FakeResponse, FakeServers, FakeService, json_response
from toolhall.examples._fakes.oauth_provider import FakeGrants
from toolhall.examples._fakes.services import READ_MAIL_SCOPE, FakeGoogle
from toolhall.examples.gmail import Email, Gmail
from toolhall.model.errors import NeedsRequirement
from toolhall.model.requirements import AccountToken, ResolvedCredentials
from toolhall.model.secret import Secret
from toolhall.testing import Client

LUNCH = Email("18f0c1a2b3d40001", "Lunch on Friday?", "The place by the river & a table for four.")
BOOK = Email("18f0c1a2b3d40002", "Your book is due", "Please bring it back by Monday.")


@dataclass
class Served:
    """A stand-in on the wire, and a token that is good there."""

    answer: FakeService | None = None
    clock: Clock = field(default_factory=Clock)
    asked: list[FakeRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        grants = FakeGrants(self.clock)
        self.token = str(ProviderHarness(clock=self.clock, grants=grants).tokens()["access_token"])
        self.running = FakeServers(lambda url: self._heard(self.answer or FakeGoogle(url, grants=grants)))
        self.url = self.running.urls[0]
        self.gmail = Gmail(self.url)

    def _heard(self, answer: FakeService) -> FakeService:
        def heard(request: FakeRequest) -> FakeResponse:
            self.asked.append(request)
            return answer(request)

        return heard

    @property
    def context(self) -> Context:
        account = AccountToken("google", Secret(self.token), (READ_MAIL_SCOPE,))
        return Context(
            equipment=ResolvedCredentials(accounts={"google": account}), outside=LazyEgressClient((self.host,))
        )

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    with closing(served.running):
        yield served


async def test_gmail_get_emails_reads_mail_with_the_users_token(served: Served) -> None:
    found = await served.gmail.get_emails(served.context)
    assert found.emails[:2] == [LUNCH, BOOK]
    assert len(found.emails) == 4
    assert {request.bearer for request in served.asked} == {served.token}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("subject:book", [BOOK]),
        ("from:ada friday", [LUNCH]),
        ("RIVER", [LUNCH]),
        ("nothing-of-the-kind", []),
        ("a&maxResults=0#", []),
    ],
)
async def test_gmail_get_emails_with_query_returns_matching_mail(
    served: Served, query: str, found: list[Email]
) -> None:
    assert (await served.gmail.get_emails(served.context, query)).emails == found
    assert served.asked[0].query["q"] == query


async def test_gmail_get_emails_called_through_a_hall_returns_mail(served: Served) -> None:
    config = Config(egress_allow=(served.host,))
    async with Client(served.gmail, config=config, supplies={"google": served.token}) as client:
        assert (await client.call(served.gmail.get_emails, query="book")).emails == [BOOK]


async def test_gmail_get_emails_without_account_sends_no_request(served: Served) -> None:
    async with Client(served.gmail, config=Config(egress_allow=(served.host,))) as client:
        with pytest.raises(NeedsRequirement, match="google"):
            await client.call(served.gmail.get_emails)
    assert served.asked == []


async def test_gmail_get_emails_with_expired_token_fails_naming_the_fix(served: Served) -> None:
    served.clock.now += 120
    with pytest.raises(ToolFailed, match="connect it again"):
        await served.gmail.get_emails(served.context)


async def test_gmail_get_emails_without_egress_allow_entry_is_refused(served: Served) -> None:
    context = Context(equipment=ResolvedCredentials(accounts={"google": AccountToken("google", Secret(served.token))}))
    with pytest.raises(EgressRefused, match="egress_allow"):
        await served.gmail.get_emails(context)
    assert served.asked == []


@pytest.mark.parametrize("id_", ["..", "../../../../authorize", "a/../..", "%2e%2e"])
async def test_gmail_get_emails_with_a_path_traversing_message_id_is_refused(id_: str) -> None:
    served = Served(lambda _: json_response({"messages": [{"id": id_}]}))
    with closing(served.running), pytest.raises(EgressRefused):
        await served.gmail.get_emails(served.context)
    assert [request.path for request in served.asked] == ["/gmail/v1/users/me/messages"]


async def test_gmail_get_emails_ignores_messages_beyond_its_limit() -> None:
    served = Served(lambda _: json_response({"id": "1", "messages": [{"id": str(number)} for number in range(50)]}))
    with closing(served.running):
        found = await served.gmail.get_emails(served.context)
    assert found.emails == [Email("1", "", "")] * 10


@pytest.mark.parametrize(("status", "again"), [(503, True), (429, True), (403, False), (404, False)])
async def test_gmail_get_emails_error_is_retryable_only_for_429_and_503(status: int, again: bool) -> None:
    served = Served(lambda _: FakeResponse(status))
    with closing(served.running), pytest.raises(ToolFailed, match="cannot be read now") as failed:
        await served.gmail.get_emails(served.context)
    assert failed.value.can_retry is again


def test_gmail_without_fake_service_uses_the_real_api_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLHALL_EXAMPLES_GMAIL", raising=False)
    assert vars(Gmail()) == {"_address": "https://gmail.googleapis.com"}
