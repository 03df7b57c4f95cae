"""What a browser answers is read with care: whatever proves nothing ends with a page that says so."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import msgspec
import pytest

from tests.unit.web.browser_client import ApprovalHall, Browser
from toolhall.web.passkeys import Passkey


def b64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


CLIENT = b64(b'{"type": "webauthn.get", "challenge": "eA", "origin": "http://localhost:8000"}')
RESPONSE = {"clientDataJSON": CLIENT, "authenticatorData": b64(b"x" * 37), "signature": b64(b"x")}
MADE = {"clientDataJSON": CLIENT.replace("get", "create"), "attestationObject": b64(b"\xa0")}
GOOD: dict[str, Any] = {"id": "eHh4", "rawId": "eHh4", "type": "public-key", "response": RESPONSE}
ANSWERS = [
    "",
    "x",
    "[]",
    "{}",
    "null",
    '{"id": 7}',
    json.dumps(GOOD),
    json.dumps({**GOOD, "rawId": "e"}),
    json.dumps({**GOOD, "response": None}),
    json.dumps({**GOOD, "response": {**RESPONSE, "clientDataJSON": "e"}}),
    json.dumps({**GOOD, "response": {**RESPONSE, "authenticatorData": ""}}),
    json.dumps({**GOOD, "response": {**RESPONSE, "authenticatorData": b64(b"\xff" * 300)}}),
    json.dumps({**GOOD, "response": MADE}),
    json.dumps({**GOOD, "response": {**MADE, "attestationObject": b64(b"\xbf" * 200)}}),
    json.dumps({**GOOD, "response": {**MADE, "attestationObject": b64(b"\x9f" * 20_000)}}),
    "[" * 20_000,
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
async def test_verify_bad_response_is_refused(number: int) -> None:
    approval_hall = ApprovalHall()
    with approval_hall.hall:
        factors, browser = approval_hall.hall.approval_components.factors, Browser(approval_hall.hall)
        word, _ = await factors.invite("local", "local")
        reply = await browser.act(f"/enroll/{word}", "create", credential=ANSWERS[number])
        assert reply.status == 403, reply.text
        invitation = await factors.invitation(word)
        assert invitation is not None, "it can be tried again"
        await factors.add_passkey(invitation, msgspec.json.encode(Passkey("eHh4", b64(b"junk"))), 0)
        path = await approval_hall.ask("burn")
        reply = await browser.act(path, "passkey", credential=ANSWERS[number])
        assert reply.status == 403, reply.text
        assert (await approval_hall.approval(path)).state == "pending"


async def test_passkeys_at_ip_address_are_unavailable() -> None:
    approval_hall = ApprovalHall()
    with approval_hall.hall:
        word, _ = await approval_hall.hall.approval_components.factors.invite("local", "local")
        page = await Browser(approval_hall.hall).get(f"/enroll/{word}", host="127.0.0.1:8000")
        assert "A passkey cannot belong to a bare address" in page.text
