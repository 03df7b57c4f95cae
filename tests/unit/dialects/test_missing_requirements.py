"""Missing requirements in every dialect: accounts with their pages, secrets by name, user ids."""

import json
from typing import Any

from tests.conformance.dialects.kit import CANARY
from tests.tables import each_row
from tests.unit.dialects.test_error_tables import WAYS
from toolhall.dialects.mcp.protocol import REVISIONS
from toolhall.model.errors import NeedsRequirement
from toolhall.model.requirements import AccountRequirement, MissingRequirement

URL = "https://hall.example/connect/l-1"
MAIL = MissingRequirement("account", "l-1", URL, AccountRequirement("google", ("mail.read", "mail.send")))
CODE = MissingRequirement("account", "l-2", "https://hall.example/connect/l-2", AccountRequirement("github"))
NOWHERE = MissingRequirement("account", account=AccountRequirement("slack"))
KEY, USER = MissingRequirement("secret", "SMS_KEY"), MissingRequirement("user_id")
MAIL_SAID = {
    "kind": "account",
    "id": "l-1",
    "url": URL,
    "check_url": f"{URL}/status",
    "provider": "google",
    "scopes": ["mail.read", "mail.send"],
}
EVERYTHING = (MAIL, CODE, KEY, USER)


def said(way: str, *missing: MissingRequirement, message: str = "not yet") -> Any:
    body = WAYS[way](NeedsRequirement(message, missing=missing, detail=CANARY)).body
    assert CANARY.encode() not in body
    return json.loads(body)


def details(way: str, *missing: MissingRequirement) -> Any:
    return said(way, *missing)["error"]["details"]


def test_missing_requirements_in_oxp_by_kind() -> None:
    challenges = [
        {"id": "l-1", "url": URL, "check_url": f"{URL}/status"},
        {"id": "l-2", "url": CODE.url, "check_url": f"{CODE.url}/status"},
    ]
    for missing, expected in (
        (EVERYTHING, {"authorization": challenges, "secrets": [{"id": "SMS_KEY"}], "user_id": True}),
        ((MAIL,), {"authorization": challenges[:1]}),
        ((KEY,), {"secrets": [{"id": "SMS_KEY"}]}),
        ((USER,), {"user_id": True}),
        ((NOWHERE,), {}),  # a challenge needs a page; the message says what to do
    ):
        assert said("oxp", *missing)["missing_requirements"] == expected
    assert WAYS["oxp"](NeedsRequirement(missing=EVERYTHING)).status == 400


@each_row(
    ("missing", "code", "status"),
    [
        ((MAIL,), "AUTHORIZATION_REQUIRED", 403),
        ((KEY, MAIL), "AUTHORIZATION_REQUIRED", 403),
        ((USER,), "AUTHORIZATION_REQUIRED", 403),
        ((KEY,), "INTERNAL_ERROR", 500),  # nothing that the caller could do
    ],
)
def test_missing_requirements_in_hub_have_code_by_remedy(
    missing: tuple[MissingRequirement, ...], code: str, status: int
) -> None:
    assert said("hub", *missing)["error"]["code"] == code
    assert WAYS["hub"](NeedsRequirement(missing=missing)).status == status


def test_missing_requirements_details_repeat_first_page() -> None:
    page = {key: value for key, value in MAIL_SAID.items() if key != "kind"}
    listed = [{"kind": "secret", "id": "SMS_KEY"}, MAIL_SAID, {"kind": "user_id"}]
    expected = {**page, "missing": listed}
    assert details("rest", KEY, MAIL, USER) == expected
    assert details("hub", KEY, MAIL, USER) == {"tool": "Kit", "method": "tool", **expected}
    assert details("machine", KEY, MAIL, USER) == {"reason": "requirement_missing", **expected}


def test_missing_requirements_without_page_are_only_listed() -> None:
    assert details("rest", KEY, NOWHERE) == {
        "missing": [
            {"kind": "secret", "id": "SMS_KEY"},
            {"kind": "account", "provider": "slack", "scopes": []},
        ]
    }
    assert "details" not in said("rest")["error"]


def test_missing_requirements_in_rest_are_403() -> None:
    assert (WAYS["rest"](NeedsRequirement(missing=[KEY])).status, said("rest", KEY)["error"]["code"]) == (
        403,
        "needs_requirement",
    )


@each_row("revision", REVISIONS)
def test_missing_requirements_in_mcp_have_links_once(revision: str) -> None:
    told = said(f"mcp@{revision}", *EVERYTHING, message=f"open {URL}")["result"]
    assert told["isError"] is True
    assert told["content"][0]["text"] == f"open {URL}\nLet the user open {CODE.url}"
    assert told["_meta"]["dev.toolhall/refused"] == "NeedsRequirement"
    listed = told["_meta"]["dev.toolhall/missing"]
    assert [each["kind"] for each in listed] == ["account", "account", "secret", "user_id"]
    assert listed[0] == MAIL_SAID
