# ruff: noqa: N802 - tests carry the names of their rows
"""Tokens of a real issuer on loopback: which ones prove a caller, and how often the issuer is asked for its keys."""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from joserfc.jwk import OctKey

from tests.threats.issuer import DISCOVERY, EVERY, FOREIGN, KEYS, Issuer, issuing, published, sign
from toolhall.auth.authenticator import AuthenticationFailed, TokenIssuer
from toolhall.auth.key_sets import FRESH_SECONDS, REFETCH_SECONDS, STALE_SECONDS, JsonFetcher
from toolhall.auth.tokens import CACHE_SECONDS, IssuedTokenVerifier, SharedSecretVerifier
from toolhall.model.caller import Caller
from toolhall.model.secret import Secret

HERE = "https://hall.example"
SECRET = "a secret of thirty-two bytes or more"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class IssuerAndVerifier:
    """An issuer, and the hall's side of it."""

    def __init__(self, issuer: Issuer, **stated: Any) -> None:
        self.issuer = issuer
        self.clock = Clock()
        told = TokenIssuer(name="idp", issuer=issuer.url, **stated)
        self.tokens = IssuedTokenVerifier([told], {HERE}, JsonFetcher([told]), self.clock)

    async def caller(self, text: str) -> Caller | None:
        """Whom a token proves."""
        found = self.tokens.verify(text)
        return found if found is None or isinstance(found, Caller) else await found

    @property
    def fetched(self) -> int:
        """How often the keys were fetched."""
        return self.issuer.asked.count("/jwks")


@pytest.fixture
def verifier() -> Iterator[IssuerAndVerifier]:
    with issuing() as issuer:
        yield IssuerAndVerifier(issuer)


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "PS256", "Ed25519"])
async def test_jwt_of_a_trusted_issuer_identifies_its_subject(verifier: IssuerAndVerifier, algorithm: str) -> None:
    now = int(verifier.clock.now)
    text = verifier.issuer.token(algorithm, scope="tools:Shop admin", exp=now + 3600, iat=now, auth_time=now - 99)
    found = await verifier.caller(text)
    assert found == Caller(
        "idp:alice",
        proof="token",
        person="idp:alice",
        scopes=frozenset({"tools:Shop", "admin"}),
        expires_at=now + 3600,
        authenticated_at=now - 99,
        short_lived=True,
        credential=Secret(text),
    )
    assert verifier.tokens.verify(text) is found  # without asking anybody


async def test_jwt_from_a_refresh_has_no_authentication_time(verifier: IssuerAndVerifier) -> None:
    """Every refresh makes a new `iat`, and no person had to be there."""
    now = int(verifier.clock.now)
    found = await verifier.caller(verifier.issuer.token(exp=now + 3600, iat=now))
    assert found
    assert (found.authenticated_at, found.short_lived) == (None, True)


async def test_jwt_with_the_older_algorithm_name_eddsa_is_accepted(verifier: IssuerAndVerifier) -> None:
    text = verifier.issuer.token("Ed25519")
    header, payload, _ = text.split(".")
    head = json.loads(base64.urlsafe_b64decode(header + "==")) | {"alg": "EdDSA"}
    signed = f"{_part(head)}.{payload}"
    signature = EVERY.get_alg("Ed25519").sign(signed.encode(), KEYS["Ed25519"])
    assert await verifier.caller(f"{signed}.{_b64(signature)}")


@pytest.mark.parametrize(
    ("changed", "scopes"),
    [
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scope": ""}, set()),
        ({"scope": 3}, set()),
        ({}, set()),
        ({"scope": " ".join(map(str, range(1_000)))}, set()),
    ],
)
async def test_jwt_scopes_are_read_from_the_scope_or_scp_claim(
    verifier: IssuerAndVerifier, changed: dict[str, Any], scopes: set[str]
) -> None:
    found = await verifier.caller(verifier.issuer.token(**changed))
    assert found
    assert found.scopes == scopes


GOOD: dict[str, dict[str, Any]] = {
    "one_of_several": {"aud": ["https://other.example", HERE]},
    "clocks_differ_at_the_start": {"nbf": int(time.time()) + 30},
    "no_time_of_issue": {"iat": None},
    "long_lived": {"exp": int(time.time()) + 86_400},
}


@pytest.mark.parametrize("case", GOOD)
async def test_jwt_with_several_audiences_clock_skew_or_without_iat_is_accepted(
    verifier: IssuerAndVerifier, case: str
) -> None:
    found = await verifier.caller(verifier.issuer.token(**GOOD[case]))
    assert found
    assert found.short_lived is (case not in ("no_time_of_issue", "long_lived"))


@pytest.mark.threat("B3")
@pytest.mark.parametrize(
    "audience", ["https://other.example", HERE + "/x", HERE.upper(), [], None, 3, {"a": HERE}, [3]]
)
async def test_B3_jwt_for_another_audience_is_refused(verifier: IssuerAndVerifier, audience: Any) -> None:
    """A token of the right issuer for any other audience is refused."""
    assert await verifier.caller(verifier.issuer.token(aud=audience)) is None
    assert await verifier.caller(verifier.issuer.token()) is not None


@pytest.mark.threat("B3")
async def test_B3_key_fetch_sends_no_part_of_the_jwt_to_the_issuer(verifier: IssuerAndVerifier) -> None:
    """To fetch keys, the issuer is told nothing of the token, nor of anything else of the caller's."""
    text = verifier.issuer.token()
    assert await verifier.caller(text)
    assert len(verifier.issuer.heads) == 2
    told = "".join(verifier.issuer.heads)
    assert not any(part in told for part in (*text.split("."), "Authorization", "alice"))


@pytest.mark.threat("B3")
async def test_B3_jwt_must_carry_the_audience_configured_for_its_issuer() -> None:
    """Where an audience is stated for an issuer, its tokens must have that one and no other."""
    with issuing() as issuer:
        verifier = IssuerAndVerifier(issuer, audience="api://hall")
        assert await verifier.caller(issuer.token(aud="api://hall"))
        assert await verifier.caller(issuer.token()) is None


def _part(value: Any) -> str:
    return _b64(json.dumps(value).encode())


def _b64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _unsigned(issuer: Issuer) -> str:
    return f"{_part({'alg': 'none', 'typ': 'JWT'})}.{_part(issuer.claims())}."


def _psychic(issuer: Issuer) -> str:
    head, payload, _ = issuer.token().split(".")
    return f"{head}.{payload}.{_b64(bytes(64))}"


def _changed(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    return f"{head}.{_part(issuer.claims(sub='root'))}.{signature}"


def _public_as_secret(issuer: Issuer) -> str:
    secret = OctKey.import_key(json.dumps(KEYS["RS256"].as_dict(private=False)))
    return sign("HS256", secret, issuer.claims(), {"kid": "rsa"})


def _own_key(issuer: Issuer, **header: Any) -> str:
    return sign("ES256", FOREIGN["ES256"], issuer.claims(), {"kid": "ec", **header})


TWICE = b'{"sub":"a","sub":"b"}'
FORGED: dict[str, Callable[[Issuer], str]] = {
    "alg_none": _unsigned,
    "alg_none_with_signature": lambda issuer: _unsigned(issuer) + "AAAA",
    "public_key_as_secret": _public_as_secret,
    "foreign_key": _own_key,
    "key_in_header": lambda issuer: _own_key(issuer, jwk=FOREIGN["ES256"].as_dict(private=False)),
    "key_address_in_header": lambda issuer: _own_key(issuer, jku=f"{issuer.url}/evil"),
    "certificate_address": lambda issuer: _own_key(issuer, x5u=f"{issuer.url}/evil"),
    "kid_is_a_path": lambda issuer: issuer.token(header={"kid": "../../../dev/null"}),
    "kid_is_sql": lambda issuer: issuer.token(header={"kid": "ec' OR '1'='1"}),
    "other_type": lambda issuer: issuer.token(header={"typ": "dpop+jwt"}),
    "psychic_signature": _psychic,
    "changed_claims": _changed,
    "expired": lambda issuer: issuer.token(exp=int(time.time()) - 61),
    "never_ends": lambda issuer: issuer.token(exp=None),
    "ends_as_text": lambda issuer: issuer.token(exp="9999999999"),
    "ends_as_truth": lambda issuer: issuer.token(exp=True),
    "not_yet": lambda issuer: issuer.token(nbf=int(time.time()) + 120),
    "from_the_future": lambda issuer: issuer.token(iat=int(time.time()) + 120),
    "no_subject": lambda issuer: issuer.token(sub=None),
    "subject_with_a_line": lambda issuer: issuer.token(sub="a\nb"),
    "empty_subject": lambda issuer: issuer.token(sub=""),
    "unknown_issuer": lambda issuer: issuer.token(iss="https://evil.example"),
    "issuer_with_a_slash": lambda issuer: issuer.token(iss=f"{issuer.url}/"),
    "huge": lambda issuer: issuer.token(sub="alice", more="x" * 1_000_000),
    "four_parts": lambda issuer: issuer.token() + ".AAAA",
    "empty_parts": lambda issuer: "..",
    "no_json": lambda issuer: f"{_b64(b'{')}.{_b64(b'{}')}.AAAA",
    "twice_the_same_claim": lambda issuer: f"{_part({'alg': 'ES256'})}.{_b64(TWICE)}.AAAA",
}


@pytest.mark.threat("B4")
@pytest.mark.parametrize("forgery", FORGED)
async def test_B4_forged_jwt_is_refused_and_no_address_in_it_is_asked(
    verifier: IssuerAndVerifier, forgery: str
) -> None:
    """However a token is forged, it proves nobody, and no address of its own is ever asked."""
    assert await verifier.caller(FORGED[forgery](verifier.issuer)) is None
    assert set(verifier.issuer.asked) <= {DISCOVERY, "/jwks"}


@pytest.mark.threat("B4")
async def test_B4_jwt_with_critical_headers_is_refused(verifier: IssuerAndVerifier) -> None:
    """A token that is signed rightly but has critical headers is refused, because none of them is understood."""
    claims, key = verifier.issuer.claims(), KEYS["ES256"]
    critical: list[dict[str, Any]] = [{"crit": ["b64"], "b64": True}, {"crit": ["x"], "x": 1}, {"crit": []}]
    for extra in critical:
        head = {"alg": "ES256", "kid": "ec", **extra}
        signed = f"{_part(head)}.{_part(claims)}"
        signature = EVERY.get_alg("ES256").sign(signed.encode(), key)
        assert await verifier.caller(f"{signed}.{_b64(signature)}") is None


@pytest.mark.threat("B4")
async def test_B4_issuer_key_for_another_use_or_algorithm_verifies_no_jwt(verifier: IssuerAndVerifier) -> None:
    """Keys for encryption, weak keys, and keys for another algorithm verify nothing."""
    key = KEYS["RS256"]
    wrong = [{"use": "enc"}, {"key_ops": ["encrypt"]}, {"alg": "PS256"}, {"n": "AQAB"}, {"kty": "oct"}, {"kid": 3}]
    for changed in ({}, *wrong):
        document = {"keys": [key.as_dict(private=False) | changed]}
        verifier.issuer.documents["/jwks"] = partial(_answer, document)
        verifier.clock.now += STALE_SECONDS + 1
        text = verifier.issuer.token("RS256", exp=int(verifier.clock.now) + 60, iat=None)
        assert (await verifier.caller(text) is None) is bool(changed), changed


def _answer(document: Any) -> tuple[int, bytes]:
    return 200, json.dumps(document).encode()


@pytest.mark.threat("B5")
async def test_B5_thousand_jwts_with_unknown_key_ids_fetch_the_keys_once(verifier: IssuerAndVerifier) -> None:
    """Tokens with random key ids make the hall fetch keys once in 30 seconds, however many come at once."""
    tokens = [verifier.issuer.token(header={"kid": f"unknown-{number}"}) for number in range(1_000)]
    assert await asyncio.gather(*map(verifier.caller, tokens)) == [None] * 1_000
    assert verifier.fetched == 1
    verifier.clock.now += REFETCH_SECONDS - 1
    assert await verifier.caller(tokens[0]) is None
    assert verifier.fetched == 1


@pytest.mark.threat("B5")
async def test_B5_issuer_keys_by_redirect_oversized_or_of_another_issuer_are_refused(
    verifier: IssuerAndVerifier,
) -> None:
    """Redirects, large documents and another issuer's document give no keys, so nobody is proven."""
    issuer = verifier.issuer
    wrong: list[Callable[[], tuple[int, bytes]]] = [
        lambda: (302, f"{issuer.url}/jwks".encode()),
        lambda: (200, json.dumps({"keys": published(KEYS), "more": "x" * 70_000}).encode()),
        lambda: (200, b"[]"),
        lambda: (200, b"{"),
        lambda: (500, b""),
    ]
    for answer in wrong:
        issuer.documents["/evil"] = answer
        stated = IssuerAndVerifier(issuer, jwks_url=f"{issuer.url}/evil")
        with pytest.raises(AuthenticationFailed, match="cannot be fetched now"):
            await stated.caller(issuer.token())
    issuer.documents[DISCOVERY] = lambda: (200, b'{"issuer":"https://evil.example","jwks_uri":"https://evil.example/"}')
    with pytest.raises(AuthenticationFailed, match="cannot be fetched now"):
        await verifier.caller(issuer.token())


async def test_jwks_url_is_found_by_oauth_authorization_server_metadata(verifier: IssuerAndVerifier) -> None:
    document = verifier.issuer.documents.pop(DISCOVERY)
    verifier.issuer.documents["/.well-known/oauth-authorization-server"] = document
    assert await verifier.caller(verifier.issuer.token())


async def test_issuer_keys_are_refreshed_and_old_ones_used_while_the_issuer_is_unavailable(
    verifier: IssuerAndVerifier,
) -> None:
    async def ask() -> Caller | None:
        return await verifier.caller(verifier.issuer.token(exp=int(verifier.clock.now) + 60, iat=None))

    assert await ask()
    verifier.clock.now += FRESH_SECONDS - 1
    assert await ask()
    assert verifier.fetched == 1
    verifier.clock.now += 2
    assert await ask()
    assert verifier.fetched == 2
    verifier.issuer.documents["/jwks"] = lambda: (503, b"")
    verifier.clock.now += FRESH_SECONDS + 1
    assert await ask()
    assert await ask()
    assert verifier.fetched == 3  # not again with every call
    verifier.clock.now += STALE_SECONDS
    with pytest.raises(AuthenticationFailed, match="cannot be fetched now"):
        await ask()


async def test_jwt_of_a_withdrawn_issuer_key_is_refused_after_the_refetch(verifier: IssuerAndVerifier) -> None:
    await verifier.caller(verifier.issuer.token())
    old = verifier.issuer.token(sub="old")
    verifier.issuer.keys = {"RS256": KEYS["RS256"]}
    verifier.clock.now += REFETCH_SECONDS
    assert await verifier.caller(verifier.issuer.token("RS256"))  # was known already
    assert await verifier.caller(verifier.issuer.token("RS256", header={"kid": "new"})) is None  # asks again
    assert await verifier.caller(old) is None


async def test_verified_jwt_is_cached_for_a_minute_but_not_beyond_its_expiry(verifier: IssuerAndVerifier) -> None:
    now = int(verifier.clock.now)
    long, short = verifier.issuer.token(exp=now + 600), verifier.issuer.token(exp=now + 20)
    assert await verifier.caller(long)
    assert await verifier.caller(short)
    verifier.issuer.keys = dict(FOREIGN)
    verifier.clock.now += REFETCH_SECONDS
    await verifier.caller(verifier.issuer.token(header={"kid": "new"}))  # the old keys are gone
    assert verifier.tokens.verify(long)
    assert await verifier.caller(short) is None
    verifier.clock.now += CACHE_SECONDS
    assert await verifier.caller(long) is None


def shared_secret_token(**changed: Any) -> str:
    """A token as an OXP client signs it."""
    usual = {"exp": int(time.time()) + 600}
    claims = {name: said for name, said in (usual | changed).items() if said is not None}
    return sign("HS256", OctKey.import_key(SECRET), claims)


def test_oxp_shared_secret_token_identifies_its_client() -> None:
    tokens = SharedSecretVerifier(SECRET, {HERE}, time.time)
    found = tokens.verify(shared_secret_token(sub="agent"))
    assert found
    assert (found.id, found.proof, found.scopes) == ("oxp:agent", "shared", frozenset({"tools:*"}))
    assert tokens.verify(shared_secret_token(sub="agent", aud=HERE))
    nameless = tokens.verify(shared_secret_token())
    assert nameless
    assert nameless.id == "oxp:client"


def test_oxp_shared_secret_token_grants_only_tool_scopes() -> None:
    found = SharedSecretVerifier(SECRET, {HERE}, time.time).verify(
        shared_secret_token(scope="admin act_as approve tools:Shop")
    )
    assert found
    assert found.scopes == frozenset({"tools:Shop"})


@pytest.mark.threat("B4")
def test_B4_oxp_shared_secret_token_without_expiry_or_for_another_audience_is_refused() -> None:
    """HS256 tokens must end, must be signed with the secret, and must name this server if they name any."""
    tokens = SharedSecretVerifier(SECRET, {HERE}, time.time)
    assert tokens.verify(shared_secret_token(exp=None)) is None
    assert tokens.verify(shared_secret_token(exp=int(time.time()) - 61)) is None
    assert tokens.verify(shared_secret_token(aud="https://other.example")) is None
    assert tokens.verify(shared_secret_token(sub="a\nb")) is None
    other = OctKey.import_key("another secret of thirty-two bytes")
    assert tokens.verify(sign("HS256", other, {"exp": int(time.time()) + 60})) is None
    assert tokens.verify(sign("ES256", FOREIGN["ES256"], {"exp": int(time.time()) + 60})) is None
