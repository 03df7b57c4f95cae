"""Credentials that an OXP caller brings: bounded, kept as secrets only, and part of what makes two calls the same."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.properties.callers.house import Reply, visit
from toolhall import Config, Toolhall, Toolkit, tool
from toolhall.dialects.oxp.messages import MAX_CREDENTIAL_BYTES, OxpCallRequest, OxpDecodeError, read_call
from toolhall.model.secret import Secret

VALUE, TOKEN, OTHER = "sk-brought-0001", "ya29.brought-0002", "sk-brought-0003"
SECRETS = [{"id": "KEY", "value": VALUE}, {"id": "PIN", "value": OTHER}]
ACCOUNTS = [{"id": "acme", "token": TOKEN}]
BROUGHT: dict[str, Any] = {"secrets": SECRETS, "authorization": ACCOUNTS}


class Post(Toolkit, name="Post", version="1.0.0"):
    """Takes what its callers bring, and counts."""

    def __init__(self) -> None:
        self.ran = 0

    @tool(account="acme", secrets=["KEY", "PIN"])
    async def send(self) -> int:
        """Send a letter."""
        self.ran += 1
        return self.ran


class LocalHall:
    """A hall called by the local caller."""

    def __init__(self) -> None:
        self.post = Post()
        self.hall = Toolhall(self.post, config=Config(accept_credentials=("*",)))

    async def call(self, context: Any) -> Reply:
        request = {"tool_id": "Post.send", "call_id": "c-1", "context": context}
        body = json.dumps({"request": request}).encode()
        return await visit(self.hall.http, "/oxp/tools/call", body, {}, client="127.0.0.1")


@pytest.fixture
async def local_hall() -> AsyncIterator[LocalHall]:
    local_hall = LocalHall()
    with local_hall.hall:
        await local_hall.hall.open()
        yield local_hall


async def test_repeat_with_same_credentials_runs_once(local_hall: LocalHall) -> None:
    first = await local_hall.call(BROUGHT)
    assert (first.status, json.loads(first.body)["result"]["value"]) == (200, 1)
    again = await local_hall.call({"authorization": ACCOUNTS, "secrets": SECRETS[::-1]})
    assert again.body == first.body
    assert local_hall.post.ran == 1


@pytest.mark.threat("G12")
@pytest.mark.parametrize(
    "context",
    [
        {},
        {"secrets": SECRETS},
        {"secrets": [{"id": "KEY", "value": OTHER}, {"id": "PIN", "value": VALUE}], "authorization": ACCOUNTS},
        {"secrets": SECRETS, "authorization": [{"id": "acme", "token": VALUE}]},
        {"secrets": [*SECRETS, {"id": "acme", "value": TOKEN}]},
    ],
    ids=["none", "fewer", "changed about", "another token", "a token as a secret"],
)
async def test_repeat_with_other_credentials_is_refused(local_hall: LocalHall, context: Any) -> None:
    """Whoever has the id only, and not the credentials, does not get the answer that was given for them."""
    assert (await local_hall.call(BROUGHT)).status == 200
    reply = await local_hall.call(context)
    assert (reply.status, "call_id was used" in json.loads(reply.body)["message"]) == (400, True)
    assert local_hall.post.ran == 1


def read(context: Any) -> OxpCallRequest:
    return read_call(json.dumps({"request": {"tool_id": "Post.send", "context": context}}).encode())


@pytest.mark.threat("G8")
def test_credentials_are_kept_as_secrets() -> None:
    request = read({**BROUGHT, "user_id": "ada", "more": 1})
    assert request.context == {"user_id": "ada", "more": 1}
    assert request.credentials is not None
    assert request.credentials.secrets == {"KEY": Secret(VALUE), "PIN": Secret(OTHER)}
    assert request.credentials.tokens == {"acme": Secret(TOKEN)}
    for value in (VALUE, TOKEN, OTHER):
        assert value not in repr(request)
        assert value not in repr(msgspec.structs.asdict(request))


@pytest.mark.threat("F4")
@pytest.mark.parametrize(("key", "member"), [("secrets", "value"), ("authorization", "token")])
@pytest.mark.parametrize("letter", ["x", "ä", "😀"])
def test_credentials_are_bounded(key: str, member: str, letter: str) -> None:
    most = letter * (MAX_CREDENTIAL_BYTES // len(letter.encode()))
    assert read({key: [{"id": "acme", member: most}]}).credentials
    short = read({key: [{"id": "acme", member: "abc"}]}).credentials
    assert short is not None
    assert short.too_short == ("acme",)
    for value in (most + letter, "x" * 1_000_000):
        with pytest.raises(OxpDecodeError, match=f"context.{key}: a {member} has at most {MAX_CREDENTIAL_BYTES} bytes"):
            read({key: [{"id": "fine", member: "long enough"}, {"id": "acme", member: value}]})
