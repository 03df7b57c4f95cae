"""Approvals and factors over HTTP, as the command line uses them."""

from collections.abc import Iterator
from typing import Any

import pyotp
import pytest

from tests.unit.web.browsing import ALICE, ORIGIN, Browser, House
from toolhall.config import Config


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    with house.hall:
        yield house


@pytest.fixture
def desk(house: House) -> Browser:
    return Browser(house.hall)


def place(path: str, action: str) -> str:
    return f"/api/approvals/{path.rpartition('/')[2]}/{action}"


async def test_pending_approvals_are_listed_completely(house: House, desk: Browser) -> None:
    path = await house.ask("burn", room="attic")
    status, told = await desk.api("GET", "/api/approvals")
    (found,) = told["approvals"]
    assert (status, found["url"], found["shown"]) == (200, f"{ORIGIN}{path}", '{\n  "room": "attic"\n}')
    burn = house.hall.dispatcher.registry.snapshot.find("burn")
    assert burn is not None
    assert (found["definitionSha256"], found["codeSha256"]) == (burn.definition_sha256, burn.code_sha256)
    assert burn.code_sha256
    said = {name: found[name] for name in ("state", "how", "level", "effect", "caller", "person", "mayApprove")}
    assert said == {
        "state": "pending",
        "how": "approval",
        "level": 9,
        "effect": "destroys",
        "caller": "local",
        "person": "local",
        "mayApprove": True,
    }


async def test_approve_needs_valid_code(house: House, desk: Browser) -> None:
    path = await house.ask("burn")
    status, said = await desk.api("POST", place(path, "approve"), {"code": "123456"})
    assert (status, "toolhall factor add totp local" in said["error"]["message"]) == (403, True)
    generator = await house.generator("local")
    bodies: list[Any] = [{}, {"code": ""}, {"code": 123456}, {"code": "1" * 17}, {"code": "000000", "yes": True}, []]
    for body in bodies:
        status, said = await desk.api("POST", place(path, "approve"), body)
        assert status == 400
        assert "000000" not in said["error"]["message"]
    status, done = await desk.api("POST", place(path, "approve"), {"code": generator.code()})
    assert (status, done["state"], done["approver"], done["method"]) == (200, "approved", "local", "cli")
    assert await house.call("burn") == b'"burn attic"'
    status, late = await desk.api("POST", place(path, "deny"))
    assert (status, late["error"]["message"]) == (409, "this approval is consumed; nothing was changed")


async def test_deny_needs_no_code(house: House, desk: Browser) -> None:
    path = await house.ask("burn")
    status, done = await desk.api("POST", place(path, "deny"))
    assert (status, done["state"], done["approver"]) == (200, "denied", "local")
    assert (await desk.api("GET", "/api/approvals"))[1] == {"approvals": []}


@pytest.mark.parametrize(
    "path", ["/api/approvals/x", "/api/approvals/x/run", "/api/approvals//deny", "/api/approvals/"]
)
async def test_approvals_unknown_path_is_not_found(desk: Browser, path: str) -> None:
    assert (await desk.api("POST", path, {}))[0] == 404


async def test_approve_unknown_id_is_not_found(desk: Browser) -> None:
    assert (await desk.api("POST", place("x" * 22, "deny"), {}))[0] == 404


async def test_approvals_of_others_are_hidden() -> None:
    house = House(Config(profile="server", public_url=ORIGIN))
    with house.hall:
        await house.grant("*")
        path = await house.ask("burn", ALICE)
        generator = await house.generator("bob")
        await house.generator("alice")
        desk = Browser(house.hall)
        admin = {"authorization": f"Bearer {await house.key('root', 'admin', 'approve', owner='bob')}"}
        assert (await desk.api("GET", "/api/approvals"))[0] == 401
        assert (await desk.api("GET", "/api/approvals", **admin))[1] == {"approvals": []}
        for action, body in (("approve", {"code": generator.code()}), ("deny", {})):
            assert (await desk.api("POST", place(path, action), body, **admin))[0] == 403
        assert (await house.approval(path)).state == "pending"


async def test_totp_counts_after_confirmation(house: House, desk: Browser) -> None:
    status, made = await desk.api("POST", "/api/factors", {"kind": "totp", "person": "local"})
    assert status == 201
    assert made["uri"].startswith("otpauth://totp/toolhall:local?secret=" + made["secret"])
    assert (await desk.api("GET", "/api/factors"))[1] == {"factors": []}
    confirmation = {"enrolment": made["enrolment"], "code": "000000"}
    assert (await desk.api("POST", "/api/factors/confirm", confirmation))[0] == 403
    assert (await desk.api("POST", "/api/factors/confirm", confirmation | {"enrolment": "x"}))[0] == 409
    right = confirmation | {"code": _code(house, made["secret"])}
    status, kept = await desk.api("POST", "/api/factors/confirm", right)
    assert (status, kept["kind"], kept["person"]) == (201, "totp", "local")
    assert (await desk.api("POST", "/api/factors/confirm", right))[0] == 409
    assert [each["id"] for each in (await desk.api("GET", "/api/factors"))[1]["factors"]] == [kept["id"]]
    told = str(await desk.api("GET", "/api/factors"))
    assert made["secret"] not in told


def _code(house: House, secret: str) -> str:
    return pyotp.TOTP(secret).generate_otp(int(house.hall.approval_components.factors.clock()) // 30)


async def test_second_factor_change_needs_existing_code(house: House, desk: Browser) -> None:
    """Else any program on this machine could add one of its own, and approve with it."""
    generator = await house.generator("local")
    (known,) = (await desk.api("GET", "/api/factors"))[1]["factors"]
    for kind in ("totp", "passkey"):
        wanted: dict[str, Any] = {"kind": kind, "person": "local"}
        assert (await desk.api("POST", "/api/factors", wanted))[0] == 403
        assert (await desk.api("POST", "/api/factors", {**wanted, "code": "000000"}))[0] == 403
        assert (await desk.api("POST", "/api/factors", {**wanted, "code": generator.code()}))[0] == 201
    gone = f"/api/factors/{known['id']}"
    assert (await desk.api("DELETE", gone))[0] == 403
    assert (await desk.api("DELETE", gone, {"code": generator.code()}))[1] == {"removed": known["id"]}
    assert (await desk.api("DELETE", gone, {"code": "000000"}))[0] == 404


async def test_second_factor_change_by_cli_needs_no_code(house: House, desk: Browser) -> None:
    await house.generator("local")
    house.hall.api.context.origin = "cli"
    (known,) = (await desk.api("GET", "/api/factors"))[1]["factors"]
    assert (await desk.api("POST", "/api/factors", {"kind": "passkey", "person": "local"}))[0] == 201
    assert (await desk.api("DELETE", f"/api/factors/{known['id']}"))[0] == 200


async def test_factors_need_scope_admin() -> None:
    """A key that a program holds must not be enough to become its person."""
    house = House(Config(profile="server", public_url=ORIGIN))
    with house.hall:
        key = {"authorization": f"Bearer {await house.key('ci', owner='alice')}"}
        desk = Browser(house.hall)
        assert (await desk.api("POST", "/api/factors", {"kind": "totp", "person": "alice"}, **key))[0] == 403
        assert (await desk.api("POST", "/api/factors", {"kind": "passkey", "person": "alice"}, **key))[0] == 403
        assert (await desk.api("GET", "/api/factors", **key))[0] == 403


async def test_factors_per_person_are_limited(house: House, desk: Browser) -> None:
    wanted = {"kind": "passkey", "person": "carol"}
    statuses = [(await desk.api("POST", "/api/factors", wanted))[0] for _ in range(11)]
    assert statuses == [201] * 10 + [409]


@pytest.mark.parametrize("body", [{}, {"kind": "sms", "person": "a"}, {"kind": "totp", "person": ""}, [], "totp"])
async def test_factors_bad_body_is_refused(desk: Browser, body: Any) -> None:
    assert (await desk.api("POST", "/api/factors", body))[0] == 400


async def test_decisions_are_audited_without_codes(house: House, desk: Browser) -> None:
    path = await house.ask("burn")
    await desk.api("POST", place(path, "approve"), {"code": "424242"})
    await desk.api("POST", place(path, "deny"))
    records = house.hall.journal.records  # type: ignore[union-attr] # a hall without a folder keeps them in memory
    approval = path.rpartition("/")[2]
    decided = [(each.tool, each.outcome) for each in records if each.dialect == "api/management" and each.phase is None]
    about = f"{approval} browsing.burn@0.1.0"
    assert decided == [(f"approve {about}", "WrongFactor"), (f"deny {about}", "ok")]
    assert "424242" not in str(records)
