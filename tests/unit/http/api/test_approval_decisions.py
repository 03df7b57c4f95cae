"""Approvals over HTTP: reasons of a no, decided ones, differences, and passkeys."""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

import cbor2
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from tests.unit.web.browser_client import ALICE, ORIGIN, ApprovalHall, Browser
from toolhall.model.errors import Limited
from toolhall.web.passkeys import Passkey

RP = "localhost"


@pytest.fixture
def house() -> Iterator[ApprovalHall]:
    house = ApprovalHall()
    with house.hall:
        yield house


@pytest.fixture
def browser(house: ApprovalHall) -> Browser:
    return Browser(house.hall)


def at(path: str, action: str) -> str:
    return f"/api/approvals/{path.rpartition('/')[2]}/{action}"


def b64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


class SoftPasskey:
    """A passkey in memory, which signs whatever it is asked to."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._id = b"soft-passkey"
        self._counter = 0

    async def add_to(self, house: ApprovalHall, person: str) -> None:
        """Enrol it, as the page does with what a browser answers."""
        factors = house.hall.approval_components.factors
        numbers = self._key.public_key().public_numbers()
        x, y = (number.to_bytes(32, "big") for number in (numbers.x, numbers.y))
        key = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})
        word, _ = await factors.invite(person, "test")
        invitation = await factors.invitation(word)
        assert invitation is not None
        await factors.add_passkey(invitation, msgspec.json.encode(Passkey(b64(self._id), b64(key))), 0)

    def sign(self, options: Any, origin: str = ORIGIN) -> dict[str, Any]:
        """What navigator.credentials.get returns for these options."""
        self._counter += 1
        client = json.dumps({"type": "webauthn.get", "challenge": options["challenge"], "origin": origin}).encode()
        data = hashlib.sha256(options["rpId"].encode()).digest() + b"\x05" + self._counter.to_bytes(4, "big")
        signature = self._key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        response = {"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(signature)}
        return {"id": b64(self._id), "rawId": b64(self._id), "type": "public-key", "response": response}


async def test_passkey_approves_exactly_the_approval_of_its_options(house: ApprovalHall, browser: Browser) -> None:
    passkey = SoftPasskey()
    await passkey.add_to(house, "local")
    attic, cellar = await house.ask("burn"), await house.ask("burn", room="cellar")
    status, made = await browser.api("POST", at(attic, "options"), {})
    assert (status, made["id"], made["publicKey"]["rpId"]) == (200, attic.rpartition("/")[2], RP)
    assert urlsafe_b64decode(made["publicKey"]["challenge"] + "==")
    signed = {"id": made["id"], "credential": passkey.sign(made["publicKey"])}
    other = {**signed, "id": cellar.rpartition("/")[2]}
    assert (await browser.api("POST", at(cellar, "approve"), signed))[0] == 403, "the id is of another approval"
    assert (await browser.api("POST", at(cellar, "approve"), other))[0] == 403, "and so is the challenge"
    foreign = {**signed, "credential": passkey.sign(made["publicKey"], "https://evil.example")}
    assert (await browser.api("POST", at(attic, "approve"), foreign))[0] == 403
    status, done = await browser.api("POST", at(attic, "approve"), signed)
    assert (status, done["state"], done["method"], done["approver"]) == (200, "approved", "passkey", "local")
    assert [await house.call("burn"), house.ran] == [b'"burn attic"', [("burn", "attic")]]
    assert (await house.approval(cellar)).state == "pending"


async def test_options_are_for_those_who_may_approve(house: ApprovalHall, browser: Browser) -> None:
    path = await house.ask("burn")
    status, said = await browser.api("POST", at(path, "options"), {})
    assert (status, "has no passkey that works at this address" in said["error"]["message"]) == (403, True)
    second = await house.ask("sell")
    assert (await browser.api("POST", at(second, "options"), {}))[0] == 403, "level 10 needs another person"
    eve = {"authorization": f"Bearer {await house.key('eve')}"}
    assert (await browser.api("POST", at(path, "options"), {}, **eve))[0] == 403
    assert (await browser.api("POST", at("/" + "x" * 22, "options"), {}))[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        {"code": "123456", "credential": {}},
        {"id": "x"},
        {"credential": "text"},
        {"credential": {}, "extra": 1},
    ],
)
async def test_approve_takes_one_proof(house: ApprovalHall, browser: Browser, body: Any) -> None:
    path = await house.ask("burn")
    status, said = await browser.api("POST", at(path, "approve"), body)
    assert (status, "123456" in said["error"]["message"].replace('{"code": "123456"}', "")) == (400, False)
    assert (await house.approval(path)).state == "pending"


async def test_reason_of_a_no_is_told_to_whoever_asked(house: ApprovalHall, browser: Browser) -> None:
    path = await house.ask("burn")
    status, denied = await browser.api("POST", at(path, "deny"), {"reason": " Not the\u202e\r\n\u2028 attic! "})
    assert (status, denied["state"], denied["reason"]) == (200, "denied", "Not the attic!")
    again = await house.call("burn", room="cellar")
    assert isinstance(again, Limited)
    assert again.message.endswith("the reason they gave: Not the attic!")
    _, listed = await browser.api("GET", "/api/approvals?state=decided")
    assert [(each["state"], each["reason"]) for each in listed["approvals"]] == [("denied", "Not the attic!")]


@pytest.mark.parametrize("body", [None, {}, {"reason": None}, {"reason": "  "}])
async def test_no_needs_no_reason(house: ApprovalHall, browser: Browser, body: Any) -> None:
    path = await house.ask("burn")
    assert (await browser.api("POST", at(path, "deny"), body))[1]["reason"] is None
    again = await house.call("burn")
    assert isinstance(again, Limited)
    assert "reason" not in again.message


async def test_long_reason_is_refused(house: ApprovalHall, browser: Browser) -> None:
    path = await house.ask("burn")
    assert (await browser.api("POST", at(path, "deny"), {"reason": "x" * 501}))[0] == 400
    assert (await browser.api("POST", at(path, "deny"), {"reason": 7}))[0] == 400
    assert (await house.approval(path)).state == "pending"


async def test_decided_approvals_are_listed_newest_first_to_those_they_concern(
    house: ApprovalHall, browser: Browser
) -> None:
    generator = await house.generator("local")
    first, second = await house.ask("burn"), await house.ask("burn", room="cellar")
    await house.grant("ci")
    other = await house.ask("burn", ALICE)
    assert (await browser.api("POST", at(first, "approve"), {"code": generator.code()}))[0] == 200
    assert (await browser.api("POST", at(second, "deny"), {}))[0] == 200
    decided = (await browser.api("GET", "/api/approvals?state=decided"))[1]["approvals"]
    assert [each["id"] for each in decided] == [path.rpartition("/")[2] for path in (second, first)]
    assert (await browser.api("GET", "/api/approvals"))[1]["approvals"] == []
    alice = {"authorization": f"Bearer {await house.key('laptop', owner='alice')}"}
    assert (await browser.api("GET", "/api/approvals?state=decided", **alice))[1]["approvals"] == []
    (waiting,) = (await browser.api("GET", "/api/approvals", **alice))[1]["approvals"]
    assert waiting["id"] == other.rpartition("/")[2]
    assert (await browser.api("GET", "/api/approvals?state=all"))[0] == 400


async def test_pending_approval_shows_what_differs_from_the_last_one(house: ApprovalHall, browser: Browser) -> None:
    generator = await house.generator("local")
    first = await house.ask("burn", room="attic")
    assert (await browser.api("GET", "/api/approvals"))[1]["approvals"][0]["differences"] is None
    _, done = await browser.api("POST", at(first, "approve"), {"code": generator.code()})
    await house.ask("burn", room="cellar", number=2)
    (waiting,) = (await browser.api("GET", "/api/approvals"))[1]["approvals"]
    assert waiting["differences"] == {
        "since": done["decidedAt"],
        "changes": [
            {"path": "/room", "before": "attic", "after": "cellar"},
            {"path": "/number", "before": None, "after": 2},
        ],
    }


async def test_what_another_person_was_asked_before_is_shown_to_nobody_else(
    house: ApprovalHall, browser: Browser
) -> None:
    """Two people have keys of one name: arguments and reasons stay with the person who was asked."""
    await house.grant("ci")
    generator = await house.generator("alice")
    bob = msgspec.structs.replace(ALICE, person="bob")
    as_alice = {"authorization": f"Bearer {await house.key('laptop', owner='alice')}"}
    key = await house.key("phone", owner="bob")
    as_bob = {"authorization": f"Bearer {key}"}
    first = await house.ask("burn", ALICE, room="vault of alice")
    assert (await browser.api("POST", at(first, "approve"), {"code": generator.code()}, **as_alice))[0] == 200
    await house.call("burn", ALICE, room="vault of alice")
    path = await house.ask("burn", bob, room="attic")
    (waiting,) = (await browser.api("GET", "/api/approvals", **as_bob))[1]["approvals"]
    assert (waiting["caller"], waiting["person"], waiting["differences"]) == ("ci", "bob", None)
    page = await Browser(house.hall, address="192.0.2.7").act(path, "sign_in", key=key)
    assert ("attic" in page.text, "vault of alice" in page.text) == (True, False)
    again = await house.ask("burn", ALICE, room="cellar")
    (own,) = (await browser.api("GET", "/api/approvals", **as_alice))[1]["approvals"]
    assert own["differences"]["changes"][0]["before"] == "vault of alice"
    await browser.api("POST", at(again, "deny"), {"reason": "alice is away"}, **as_alice)
    for caller, told in ((ALICE, True), (bob, False)):
        refused = await house.call("burn", caller, room="hall")
        assert isinstance(refused, Limited)
        assert ("alice is away" in refused.message) is told
