"""`/api/secrets`, `/api/providers`, `/api/accounts`: values go in and never out, and accounts are everybody's own."""

import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.servers.authority import Authority, authority
from tests.unit.http.api.management_client import manage
from tests.unit.http.api.test_described import check
from tests.unit.web.account_hall import AccountHall, account_hall, agree_at_provider
from tests.unit.web.browser_client import ORIGIN
from toolhall import Config, Toolhall
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.model.secret import Secret
from toolhall.registration.access import NewKey
from toolhall.stores.vault.envelope import DecryptionFailed
from toolhall.stores.vault.key_sources import generate_key

VALUE = "tw-4f1e0b7c-canary"


@pytest.fixture
def acme() -> Iterator[Authority]:
    with authority() as server:
        yield server


@pytest.fixture
async def accounts(acme: Authority) -> AsyncIterator[AccountHall]:
    async with account_hall(acme) as accounts:
        yield accounts


@pytest.fixture
async def served(acme: Authority) -> AsyncIterator[AccountHall]:
    async with account_hall(acme, profile="server", public_url=ORIGIN, vault_key=generate_key()) as accounts:
        yield accounts


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def test_secret_value_is_used_and_never_returned(accounts: AccountHall) -> None:
    path = "/api/secrets/SMS_KEY"
    made = await manage(accounts.hall, "PUT", path, {"value": VALUE})
    assert (made.status, made.body["name"], made.body["user"], made.body["by"]) == (200, "SMS_KEY", None, "local")
    answer = await accounts.hall.dispatcher.answer(CallTool("Post_ring", {}, "test"), LOCAL)
    assert isinstance(answer, CompletedCall)
    assert answer.result.encoded == str(len(VALUE)).encode()
    listed = await manage(accounts.hall, "GET", "/api/secrets")
    (row,) = listed.body["secrets"]
    assert {**row, "usedAt": None} == {**made.body, "usedAt": None}
    again = await manage(accounts.hall, "PUT", path, {"value": VALUE + "2"})
    assert again.body["hint"] != made.body["hint"]
    rotated = await manage(accounts.hall, "POST", "/api/secrets/rotate")
    assert (rotated.status, rotated.body) == (200, {"rotated": 1})
    gone = await manage(accounts.hall, "DELETE", path)
    assert (gone.body, (await manage(accounts.hall, "DELETE", path)).status) == ({"removed": "SMS_KEY"}, 404)
    assert VALUE not in repr((made, listed, again, rotated, gone, *accounts.recorded()))


async def test_secret_shows_who_uses_it_and_when(accounts: AccountHall) -> None:
    hall = accounts.hall
    for path in ("SMS_KEY", "SMS_KEY?user=alice", "OTHER"):
        await hall.credentials.vault.set(path.partition("?")[0], Secret(VALUE), path.partition("=")[2] or None, "tests")
    await hall.dispatcher.answer(CallTool("Post_ring", {}, "test"), LOCAL)
    listed = (await manage(hall, "GET", "/api/secrets")).body["secrets"]
    found = {(each["name"], each["user"]): (each["usedBy"], each["usedAt"] is not None) for each in listed}
    (ring,) = [entry.id for entry in hall.registry.snapshot.entries if entry.tool.id.tool == "ring"]
    assert found == {
        ("SMS_KEY", None): ([ring], True),
        ("SMS_KEY", "alice"): ([ring], False),
        ("OTHER", None): ([], False),
    }


async def test_secrets_are_per_user(accounts: AccountHall) -> None:
    for user in ("alice", "bob"):
        await manage(accounts.hall, "PUT", f"/api/secrets/SMS_KEY?user={user}", {"value": f"{VALUE}-{user}"})
    vault = accounts.hall.credentials.vault
    found = [vault.get("SMS_KEY", user) for user in ("alice", "bob", "carol")]
    assert [each and each.reveal() for each in found] == [f"{VALUE}-alice", f"{VALUE}-bob", None]
    assert (await manage(accounts.hall, "DELETE", "/api/secrets/SMS_KEY")).status == 404
    assert (await manage(accounts.hall, "DELETE", "/api/secrets/SMS_KEY?user=bob")).status == 200
    assert [each["user"] for each in (await manage(accounts.hall, "GET", "/api/secrets")).body["secrets"]] == ["alice"]


async def test_shred_removes_all_secrets_of_user(accounts: AccountHall) -> None:
    for name, query in (("SMS_KEY", ""), ("SMS_KEY", "?user=alice"), ("OTHER", "?user=alice")):
        await manage(accounts.hall, "PUT", f"/api/secrets/{name}{query}", {"value": VALUE})
    vault = accounts.hall.credentials.vault
    sealed = (await vault.sealer("user:alice")).seal(b"tokens", "a1")
    assert (await manage(accounts.hall, "DELETE", "/api/secrets")).status == 400
    gone = await manage(accounts.hall, "DELETE", "/api/secrets?user=alice")
    assert (gone.status, gone.body) == (200, {"removed": "alice"})
    assert [each["user"] for each in (await manage(accounts.hall, "GET", "/api/secrets")).body["secrets"]] == [None]
    with pytest.raises(DecryptionFailed):
        await (await vault.sealer("user:alice")).open_with_refresh(sealed, "a1")
    assert (await manage(accounts.hall, "DELETE", "/api/secrets?user=bob")).status == 404


async def test_audit_of_secret_hides_value(accounts: AccountHall) -> None:
    """The record of two values is the same: it is about the name."""
    digests = []
    for value in (VALUE, "1234"):
        await manage(accounts.hall, "PUT", "/api/secrets/PIN?user=ada", {"value": value})
        record = accounts.recorded()[-1]
        assert (record.tool, record.outcome, record.dialect) == ("set secret PIN of ada", "ok", "api/management")
        digests.append(record.arguments_sha256)
        for guess in (value, {"value": value}, {"given": {"value": value}}):
            assert hashlib.sha256(json.dumps(guess).encode()).hexdigest() not in repr(record)
    assert digests[0] == digests[1]


WRONG: list[tuple[str, str, Any, int]] = [
    ("PUT", "/api/secrets/SMS_KEY", {}, 400),
    ("PUT", "/api/secrets/SMS_KEY", {"value": "abc"}, 400),
    ("PUT", "/api/secrets/SMS_KEY", {"value": 12345}, 400),
    ("PUT", "/api/secrets/SMS_KEY", {"value": VALUE, "name": "x"}, 400),
    ("PUT", "/api/secrets/SMS_KEY", {"value": "x" * 65_537}, 400),
    ("PUT", "/api/secrets/SMS_KEY", {"value": "\u00e9" * 40_000}, 409),
    ("PUT", "/api/secrets/1KEY", {"value": VALUE}, 400),
    ("PUT", "/api/secrets/a%2Fb", {"value": VALUE}, 400),
    ("PUT", "/api/secrets/SMS_KEY?who=x", {"value": VALUE}, 400),
    ("PUT", "/api/secrets/SMS_KEY?user=", {"value": VALUE}, 400),
    ("PUT", "/api/secrets/", {"value": VALUE}, 404),
    ("DELETE", "/api/secrets/a/b", None, 404),
    ("DELETE", "/api/secrets/SMS_KEY", {"value": VALUE}, 400),
    ("GET", "/api/secrets/SMS_KEY", None, 405),
    ("POST", "/api/secrets/SMS_KEY", {"value": VALUE}, 405),
    ("GET", "/api/accounts?user=", None, 400),
    ("POST", "/api/accounts", {}, 400),
    ("POST", "/api/accounts", {"provider": "acme", "how": "pigeon"}, 400),
    ("POST", "/api/accounts", {"provider": "acme", "scopes": "mail"}, 400),
    ("POST", "/api/accounts", {"provider": "acme", "scopes": ["a b"]}, 409),
    ("POST", "/api/accounts", {"provider": "umbrella"}, 404),
    ("POST", "/api/accounts/x", {"url": "y"}, 405),
    ("PUT", "/api/secrets/rotate", {"value": VALUE}, 405),
    ("POST", "/api/accounts/x/paste", {"link": "y"}, 400),
    ("POST", "/api/accounts/x/paste", {"url": f"{ORIGIN}/oauth/callback?state=x.y&code=abcd"}, 409),
    ("DELETE", "/api/accounts/x", None, 404),
    ("DELETE", "/api/accounts/", None, 404),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), WRONG)
async def test_bad_secret_request_changes_nothing(
    accounts: AccountHall, method: str, path: str, body: Any, status: int
) -> None:
    reply = await manage(accounts.hall, method, path, body)
    assert (reply.status, VALUE in repr(reply.body)) == (status, False), reply
    assert (await manage(accounts.hall, "GET", "/api/secrets")).body == {"secrets": []}
    assert (await manage(accounts.hall, "GET", "/api/accounts")).body == {"accounts": []}


async def test_secrets_need_scope_admin(served: AccountHall) -> None:
    plain, admin = await served.key("ada", "act_as", "approve"), await served.key("root", "admin")
    for method, path, body in (
        ("GET", "/api/secrets", None),
        ("PUT", "/api/secrets/SMS_KEY", {"value": VALUE}),
        ("PUT", "/api/secrets/SMS_KEY?user=ada", {"value": VALUE}),
        ("DELETE", "/api/secrets/SMS_KEY", None),
        ("POST", "/api/secrets/rotate", None),
    ):
        assert (await manage(served.hall, method, path, body)).status == 401
        assert (await manage(served.hall, method, path, body, bearer(plain))).status == 403
    assert (await manage(served.hall, "PUT", "/api/secrets/SMS_KEY", {"value": VALUE}, bearer(admin))).status == 200
    (listed,) = (await manage(served.hall, "GET", "/api/secrets", None, bearer(admin))).body["secrets"]
    assert listed["by"] == "root"


async def test_secrets_without_vault_key_name_fix() -> None:
    with Toolhall(config=Config(profile="server", public_url=ORIGIN)) as hall:
        await hall.open()
        _, secret = await hall.access.keys.create(NewKey(name="root", scopes=("admin",)), "local")
        reply = await manage(hall, "PUT", "/api/secrets/SMS_KEY", {"value": VALUE}, bearer(secret))
        assert (reply.status, "TOOLHALL_VAULT_KEY" in reply.body["error"]["message"]) == (503, True)


async def link(accounts: AccountHall, headers: dict[str, str] | None = None, **wanted: Any) -> Any:
    reply = await manage(accounts.hall, "POST", "/api/accounts", {"provider": "acme", **wanted}, headers)
    assert reply.status == 202, reply
    return reply.body


async def pasted(accounts: AccountHall, headers: dict[str, str] | None = None) -> str:
    """Link an account by pasting; its id."""
    begun = await link(accounts, headers, scopes=["mail.read"], how="paste")
    back = f"{ORIGIN}{await agree_at_provider(begun['authorize_url'])}"
    done = await manage(accounts.hall, "POST", f"/api/accounts/{begun['id']}/paste", {"url": back}, headers)
    assert (done.status, done.body) == (200, {"id": begun["id"], "status": "completed"})
    (account,) = (await manage(accounts.hall, "GET", "/api/accounts", None, headers)).body["accounts"]
    return str(account["id"])


async def test_account_link_is_started(accounts: AccountHall) -> None:
    begun = await link(accounts, scopes=["mail.read"])
    assert begun["url"] == f"{ORIGIN}/connect/{begun['id']}"
    assert (begun["check_url"], begun["device"], begun["authorize_url"]) == (f"{begun['url']}/status", None, None)
    assert (await manage(accounts.hall, "GET", f"/connect/{begun['id']}/status")).body == {"status": "pending"}


async def test_account_link_by_device_code(accounts: AccountHall) -> None:
    begun = await link(accounts, how="device")
    assert begun["device"]["verification_uri"] == f"{accounts.acme.issuer}/device"
    ((code, kept),) = accounts.acme.devices.items()
    assert begun["device"]["user_code"] == kept["user_code"]
    assert code not in repr(begun), "that part is the hall's alone"


async def test_account_link_by_pasted_url(accounts: AccountHall) -> None:
    account = await pasted(accounts)
    (issued,) = accounts.acme.issued
    (listed,) = (await manage(accounts.hall, "GET", "/api/accounts")).body["accounts"]
    assert (listed["user"], listed["provider"], listed["scopes"]) == ("local", "acme", ["mail.read"])
    gone = await manage(accounts.hall, "DELETE", f"/api/accounts/{account}")
    assert (gone.body, issued.revoked) == ({"removed": account, "unrevoked": None}, True)
    told = repr((listed, gone, *accounts.recorded()))
    assert issued.access not in told
    assert [each.tool.rpartition(" ")[0] for each in accounts.recorded()] == [
        "begin to connect",
        "link by pasting",
        "disconnect",
    ]


async def test_accounts_are_per_person(served: AccountHall) -> None:
    ada, bob, admin = await keys(served)
    account = await pasted(served, ada)
    assert (await manage(served.hall, "GET", "/api/accounts", None, bob)).body == {"accounts": []}
    assert (await manage(served.hall, "GET", "/api/accounts?user=ada", None, bob)).status == 403
    assert (await manage(served.hall, "DELETE", f"/api/accounts/{account}", None, bob)).status == 404
    assert len((await manage(served.hall, "GET", "/api/accounts?user=ada", None, ada)).body["accounts"]) == 1
    assert len((await manage(served.hall, "GET", "/api/accounts", None, admin)).body["accounts"]) == 1
    assert (await manage(served.hall, "GET", "/api/accounts?user=bob", None, admin)).body == {"accounts": []}
    assert (await manage(served.hall, "DELETE", f"/api/accounts/{account}", None, admin)).status == 200


async def keys(accounts: AccountHall) -> tuple[dict[str, str], ...]:
    wanted: dict[str, tuple[str, ...]] = {"ada": (), "bob": (), "root": ("admin",)}
    return tuple([bearer(await accounts.key(name, *scopes)) for name, scopes in wanted.items()])


async def test_paste_into_link_of_another_is_refused(served: AccountHall) -> None:
    ada, bob, _ = await keys(served)
    begun = await link(served, ada, how="paste")
    back = f"{ORIGIN}{await agree_at_provider(begun['authorize_url'])}"
    path = f"/api/accounts/{begun['id']}/paste"
    assert (await manage(served.hall, "POST", path, {"url": back}, bob)).status == 409
    assert served.acme.count("/token") == 0
    assert (await manage(served.hall, "POST", path, {"url": back}, ada)).status == 200


async def test_shared_key_has_no_accounts(served: AccountHall) -> None:
    crew = bearer(await served.key("crew", shared=True))
    for method, path, body in (
        ("GET", "/api/accounts", None),
        ("GET", "/api/providers", None),
        ("POST", "/api/accounts", {"provider": "acme"}),
    ):
        assert (await manage(served.hall, method, path, body, crew)).status == 403


async def test_account_shows_which_tools_use_it(accounts: AccountHall) -> None:
    await pasted(accounts)
    (account,) = (await manage(accounts.hall, "GET", "/api/accounts")).body["accounts"]
    requiring = [entry for entry in accounts.hall.registry.snapshot.entries if entry.requirements is not None]
    used_by = sorted(entry.id for entry in requiring if entry.requirements and entry.requirements.accounts)
    assert used_by
    assert (account["usedBy"], account["usedAt"], account["providerName"]) == (used_by, None, "acme")


async def test_providers_are_listed_without_secrets(accounts: AccountHall) -> None:
    reply = await manage(accounts.hall, "GET", "/api/providers")
    back = f"{ORIGIN}/oauth/callback"
    acme = {"name": "acme", "displayName": "acme", "issuer": accounts.acme.issuer, "scopes": [], "redirect_uri": back}
    assert reply.body == {"providers": [acme]}


async def test_secret_and_account_responses_match_openapi(accounts: AccountHall) -> None:
    document = (await manage(accounts.hall, "GET", "/openapi.json")).body
    account = await pasted(accounts)
    for method, path, target, body in (
        ("put", "/api/secrets/{name}", "/api/secrets/A_KEY", {"value": VALUE}),
        ("put", "/api/secrets/{name}", "/api/secrets/A_KEY", {}),
        ("get", "/api/secrets", "/api/secrets", None),
        ("post", "/api/secrets/rotate", "/api/secrets/rotate", {}),
        ("delete", "/api/secrets", "/api/secrets?user=nobody", None),
        ("delete", "/api/secrets", "/api/secrets", None),
        ("delete", "/api/secrets/{name}", "/api/secrets/A_KEY", None),
        ("delete", "/api/secrets/{name}", "/api/secrets/A_KEY", None),
        ("get", "/api/providers", "/api/providers", None),
        ("get", "/api/accounts", "/api/accounts", None),
        ("post", "/api/accounts", "/api/accounts", {"provider": "acme"}),
        ("post", "/api/accounts", "/api/accounts", {"provider": "acme", "how": "device"}),
        ("post", "/api/accounts", "/api/accounts", {"provider": "acme", "how": "paste"}),
        ("post", "/api/accounts", "/api/accounts", {"provider": "nobody"}),
        ("post", "/api/accounts/{link}/paste", "/api/accounts/x/paste", {"url": "x"}),
        ("delete", "/api/accounts/{id}", f"/api/accounts/{account}", None),
    ):
        check(document, path, method, await manage(accounts.hall, method.upper(), target, body))


async def test_pending_links_per_caller_are_limited(accounts: AccountHall) -> None:
    statuses = [
        (await manage(accounts.hall, "POST", "/api/accounts", {"provider": "acme", "how": "paste"})).status
        for _ in range(21)
    ]
    assert statuses == [202] * 20 + [429]
