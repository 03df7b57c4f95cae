"""Approvals and factors over HTTP, as the command line uses them."""

from collections.abc import Iterator
from typing import Any

import pyotp
import pytest

from tests.unit.web.browser_client import ALICE, ORIGIN, ApprovalHall, Browser
from toolhall.config import Config


@pytest.fixture
def approval_hall() -> Iterator[ApprovalHall]:
    approval_hall = ApprovalHall()
    with approval_hall.hall:
        yield approval_hall


@pytest.fixture
def admin_browser(approval_hall: ApprovalHall) -> Browser:
    return Browser(approval_hall.hall)


def approval_path(path: str, action: str) -> str:
    return f"/api/approvals/{path.rpartition('/')[2]}/{action}"


async def test_pending_approvals_are_listed_completely(approval_hall: ApprovalHall, admin_browser: Browser) -> None:
    path = await approval_hall.ask("burn", room="attic")
    status, told = await admin_browser.api("GET", "/api/approvals")
    (found,) = told["approvals"]
    assert (status, found["url"], found["shown"]) == (200, f"{ORIGIN}{path}", '{\n  "room": "attic"\n}')
    burn = approval_hall.hall.dispatcher.registry.snapshot.find("burn")
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


async def test_approve_needs_valid_code(approval_hall: ApprovalHall, admin_browser: Browser) -> None:
    path = await approval_hall.ask("burn")
    status, said = await admin_browser.api("POST", approval_path(path, "approve"), {"code": "123456"})
    assert (status, "toolhall factor add totp local" in said["error"]["message"]) == (403, True)
    generator = await approval_hall.generator("local")
    bodies: list[Any] = [{}, {"code": ""}, {"code": 123456}, {"code": "1" * 17}, {"code": "000000", "yes": True}, []]
    for body in bodies:
        status, said = await admin_browser.api("POST", approval_path(path, "approve"), body)
        assert status == 400
        assert "000000" not in said["error"]["message"]
    status, done = await admin_browser.api("POST", approval_path(path, "approve"), {"code": generator.code()})
    assert (status, done["state"], done["approver"], done["method"]) == (200, "approved", "local", "cli")
    assert await approval_hall.call("burn") == b'"burn attic"'
    status, late = await admin_browser.api("POST", approval_path(path, "deny"))
    assert (status, late["error"]["message"]) == (409, "this approval is consumed; nothing was changed")


async def test_deny_needs_no_code(approval_hall: ApprovalHall, admin_browser: Browser) -> None:
    path = await approval_hall.ask("burn")
    status, done = await admin_browser.api("POST", approval_path(path, "deny"))
    assert (status, done["state"], done["approver"]) == (200, "denied", "local")
    assert (await admin_browser.api("GET", "/api/approvals"))[1] == {"approvals": []}


@pytest.mark.parametrize(
    "path", ["/api/approvals/x", "/api/approvals/x/run", "/api/approvals//deny", "/api/approvals/"]
)
async def test_approvals_unknown_path_is_not_found(admin_browser: Browser, path: str) -> None:
    assert (await admin_browser.api("POST", path, {}))[0] == 404


async def test_approve_unknown_id_is_not_found(admin_browser: Browser) -> None:
    assert (await admin_browser.api("POST", approval_path("x" * 22, "deny"), {}))[0] == 404


async def test_approvals_of_others_are_hidden() -> None:
    approval_hall = ApprovalHall(Config(profile="server", public_url=ORIGIN))
    with approval_hall.hall:
        await approval_hall.grant("*")
        path = await approval_hall.ask("burn", ALICE)
        generator = await approval_hall.generator("bob")
        await approval_hall.generator("alice")
        admin_browser = Browser(approval_hall.hall)
        admin = {"authorization": f"Bearer {await approval_hall.key('root', 'admin', 'approve', owner='bob')}"}
        assert (await admin_browser.api("GET", "/api/approvals"))[0] == 401
        assert (await admin_browser.api("GET", "/api/approvals", **admin))[1] == {"approvals": []}
        for action, body in (("approve", {"code": generator.code()}), ("deny", {})):
            assert (await admin_browser.api("POST", approval_path(path, action), body, **admin))[0] == 403
        assert (await approval_hall.approval(path)).state == "pending"


async def test_totp_counts_after_confirmation(approval_hall: ApprovalHall, admin_browser: Browser) -> None:
    status, made = await admin_browser.api("POST", "/api/factors", {"kind": "totp", "person": "local"})
    assert status == 201
    assert made["uri"].startswith("otpauth://totp/toolhall:local?secret=" + made["secret"])
    assert (await admin_browser.api("GET", "/api/factors"))[1] == {"factors": []}
    confirmation = {"enrolment": made["enrolment"], "code": "000000"}
    assert (await admin_browser.api("POST", "/api/factors/confirm", confirmation))[0] == 403
    assert (await admin_browser.api("POST", "/api/factors/confirm", confirmation | {"enrolment": "x"}))[0] == 409
    right = confirmation | {"code": _code(approval_hall, made["secret"])}
    status, kept = await admin_browser.api("POST", "/api/factors/confirm", right)
    assert (status, kept["kind"], kept["person"]) == (201, "totp", "local")
    assert (await admin_browser.api("POST", "/api/factors/confirm", right))[0] == 409
    assert [each["id"] for each in (await admin_browser.api("GET", "/api/factors"))[1]["factors"]] == [kept["id"]]
    told = str(await admin_browser.api("GET", "/api/factors"))
    assert made["secret"] not in told


def _code(approval_hall: ApprovalHall, secret: str) -> str:
    return pyotp.TOTP(secret).generate_otp(int(approval_hall.hall.approval_components.factors.clock()) // 30)


async def test_second_factor_change_needs_existing_code(approval_hall: ApprovalHall, admin_browser: Browser) -> None:
    """Else any program on this machine could add one of its own, and approve with it."""
    generator = await approval_hall.generator("local")
    (known,) = (await admin_browser.api("GET", "/api/factors"))[1]["factors"]
    for kind in ("totp", "passkey"):
        wanted: dict[str, Any] = {"kind": kind, "person": "local"}
        assert (await admin_browser.api("POST", "/api/factors", wanted))[0] == 403
        assert (await admin_browser.api("POST", "/api/factors", {**wanted, "code": "000000"}))[0] == 403
        assert (await admin_browser.api("POST", "/api/factors", {**wanted, "code": generator.code()}))[0] == 201
    gone = f"/api/factors/{known['id']}"
    assert (await admin_browser.api("DELETE", gone))[0] == 403
    assert (await admin_browser.api("DELETE", gone, {"code": generator.code()}))[1] == {"removed": known["id"]}
    assert (await admin_browser.api("DELETE", gone, {"code": "000000"}))[0] == 404


async def test_second_factor_change_by_cli_needs_no_code(approval_hall: ApprovalHall, admin_browser: Browser) -> None:
    await approval_hall.generator("local")
    approval_hall.hall.api.context.origin = "cli"
    (known,) = (await admin_browser.api("GET", "/api/factors"))[1]["factors"]
    assert (await admin_browser.api("POST", "/api/factors", {"kind": "passkey", "person": "local"}))[0] == 201
    assert (await admin_browser.api("DELETE", f"/api/factors/{known['id']}"))[0] == 200


async def test_factors_need_scope_admin() -> None:
    """A key that a program holds must not be enough to become its person."""
    approval_hall = ApprovalHall(Config(profile="server", public_url=ORIGIN))
    with approval_hall.hall:
        key = {"authorization": f"Bearer {await approval_hall.key('ci', owner='alice')}"}
        admin_browser = Browser(approval_hall.hall)
        assert (await admin_browser.api("POST", "/api/factors", {"kind": "totp", "person": "alice"}, **key))[0] == 403
        assert (await admin_browser.api("POST", "/api/factors", {"kind": "passkey", "person": "alice"}, **key))[
            0
        ] == 403
        assert (await admin_browser.api("GET", "/api/factors", **key))[0] == 403


async def test_factors_per_person_are_limited(approval_hall: ApprovalHall, admin_browser: Browser) -> None:
    wanted = {"kind": "passkey", "person": "carol"}
    statuses = [(await admin_browser.api("POST", "/api/factors", wanted))[0] for _ in range(11)]
    assert statuses == [201] * 10 + [409]


@pytest.mark.parametrize("body", [{}, {"kind": "sms", "person": "a"}, {"kind": "totp", "person": ""}, [], "totp"])
async def test_factors_bad_body_is_refused(admin_browser: Browser, body: Any) -> None:
    assert (await admin_browser.api("POST", "/api/factors", body))[0] == 400


async def test_decisions_are_audited_without_codes(approval_hall: ApprovalHall, admin_browser: Browser) -> None:
    path = await approval_hall.ask("burn")
    await admin_browser.api("POST", approval_path(path, "approve"), {"code": "424242"})
    await admin_browser.api("POST", approval_path(path, "deny"))
    records = approval_hall.hall.journal.records  # type: ignore[union-attr] # a hall without a folder keeps them in memory
    approval = path.rpartition("/")[2]
    decided = [(each.tool, each.outcome) for each in records if each.dialect == "api/management" and each.phase is None]
    about = f"{approval} browser_client.burn@0.1.0"
    assert decided == [(f"approve {about}", "WrongFactor"), (f"deny {about}", "ok")]
    assert "424242" not in str(records)
