"""`/api/me`: who the caller is and what it may do, for the console; step-up, and bearers for calls of tools.

`POST /api/me/proof` takes a code or passkey of the person, after which changes that need one are allowed for 15
minutes. `POST /api/me/token` makes the short-lived bearer with which a page calls tools at the dialect endpoints.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated

import msgspec

from toolhall.http.api.base import (
    EmptyBody,
    ManagementContext,
    ProofRequired,
    StateConflict,
    iso_time,
    json_response,
    optional_time,
    parse_body,
    parse_sensitive_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import ENDPOINTS, RequestValidator, base_url
from toolhall.model.call_records import CONSOLE_SUFFIX
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, Unauthenticated
from toolhall.model.json import Json, encode
from toolhall.model.messages import WireResponse
from toolhall.pipeline.admin import AdminOperation
from toolhall.pipeline.approvals import person_of
from toolhall.pipeline.second_factors import SecondFactors, WrongFactor
from toolhall.stores.audit.filters import AuditQuery
from toolhall.web.auth import SESSION_DIALECT
from toolhall.web.cookie_auth import ME_PATH, NO_STORE
from toolhall.web.passkeys import Passkeys
from toolhall.web.sessions import API_PURPOSE, BrowserSession, BrowserSessions

_OPTIONS_SECONDS = 300.0
_OPTIONS_CONTEXT = "proof options"
_NO_SESSION = "only a person who signed in proves to be present: sign in at /sign-in"
_CLIENT_SEARCH = 100  # newest records that are looked at for a call of a client
_OWN_DIALECTS = ("api", "page", SESSION_DIALECT)  # of changes of the hall, and of people at its pages


class PresenceProof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A code, or the response of a passkey to options that were made before."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=16)] | None = None
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] | None = None
    credential: dict[str, Json] | None = None


class ProofOptions(msgspec.Struct, frozen=True):
    """The sealed id of passkey options: the session that they are for, and when they expire."""

    nonce: str
    expires: float


@dataclass(frozen=True)
class ConsoleFacts:
    """What `/api/me` tells about the hall."""

    name: str
    profile: str
    version: str
    has_oidc: bool = False


class MeApi:
    """`/api/me` and what is below it; for callers with any proof."""

    def __init__(
        self,
        facts: ConsoleFacts,
        context: ManagementContext,
        sessions: BrowserSessions,
        factors: SecondFactors,
        passkeys: Passkeys,
        validator: RequestValidator,
    ) -> None:
        self._facts = facts
        self._context = context
        self._sessions = sessions
        self._factors = factors
        self._passkeys = passkeys
        self._validator = validator
        self._was_used = False

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes."""
        return {
            ME_PATH: {"GET": self.me},
            f"{ME_PATH}/proof": {"POST": self.prove},
            f"{ME_PATH}/proof/options": {"POST": self.options},
            f"{ME_PATH}/token": {"POST": self.token},
        }

    async def me(self, request: HttpRequest) -> None:
        """`GET /api/me`."""
        await respond(request, self._me(request))

    async def prove(self, request: HttpRequest) -> None:
        """`POST /api/me/proof`."""
        await respond(request, self._prove(request))

    async def options(self, request: HttpRequest) -> None:
        """`POST /api/me/proof/options`."""
        await respond(request, self._options(request))

    async def token(self, request: HttpRequest) -> None:
        """`POST /api/me/token`."""
        await respond(request, self._token(request))

    def require_presence(self, request: HttpRequest) -> None:
        """Raise ProofRequired for a request of a browser session whose person has not proved to be present lately."""
        session = self._session(request)
        if session is not None and not self._sessions.is_proven(session):
            raise ProofRequired

    async def _me(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        caller = _proven(request)
        session, admin = self._session(request), self._context.dispatcher.admin
        public_url = self._sessions.public_url
        url = public_url.configured or base_url(request.scope, request.headers)
        running = await asyncio.to_thread(self._context.running_processes)
        renewed = None if session is None else self._sessions.renewed(session) or session
        return json_response(
            {
                "caller": caller.id,
                "person": caller.person,
                "proof": caller.proof,
                "scopes": sorted(caller.scopes),
                "may": {
                    "manage": admin.is_allowed(caller),
                    "observe": admin.may_observe(caller),
                    "approve": caller.proof != "shared",
                },
                "hall": self._facts.name,
                "version": self._facts.version,
                "profile": self._facts.profile,
                "publicUrl": public_url.configured,
                "processes": {"running": running, "seen": running},
                "endpoints": {name.lower(): url + path for name, path in ENDPOINTS.items()},
                "token": None if session is None else self._sessions.csrf_token(session, API_PURPOSE),
                "sessionEndsAt": None if renewed is None else iso_time(renewed.expires),
                "provenAt": None if session is None else optional_time(session.proven_at),
                "hasFactor": bool(await self._factors.factors_of(person_of(caller))),
                "firstRun": await self._is_first_run(),
                "docs": f"{url}/openapi.json",
                "oidc": self._facts.has_oidc,
            }
        )

    async def _is_first_run(self) -> bool:
        """Whether the hall has no API key yet, and no call of a client among the newest records."""
        if not self._was_used:
            self._was_used = bool(self._context.access.keys.all)
        if not self._was_used:
            newest = await self._context.journal.search(AuditQuery(), _CLIENT_SEARCH)
            self._was_used = any(_is_of_client(each.record.dialect) for each in newest.records)
        return not self._was_used

    async def _prove(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        proof = parse_sensitive_body(body, PresenceProof, '{"code": "123456"}, or {"id": "...", "credential": {...}}')
        session, person = self._required_session(request), person_of(request.caller)

        async def apply() -> BrowserSession:
            if proof.code is not None:
                await self._factors.check_code(person, proof.code)
            elif proof.id is not None and proof.credential is not None and self._are_options(proof.id, session):
                credential = encode(proof.credential).decode()
                await self._passkeys.verify(person, _purpose(proof.id), credential, request.headers)
            else:
                raise WrongFactor("these options are too old, or of another session; ask for new ones")
            return self._sessions.proven(session)

        operation = AdminOperation("prove presence", SESSION_DIALECT, {}, personal=True)
        proven = await self._context.dispatcher.admin(operation, request.caller, apply)
        request.extra_headers = (NO_STORE, self._sessions.set_cookie(proven))
        return json_response({"provenAt": optional_time(proven.proven_at)})

    def _are_options(self, sealed: str, session: BrowserSession) -> bool:
        options = self._sessions.unseal(sealed, _OPTIONS_CONTEXT, ProofOptions)
        return options is not None and options.nonce == session.nonce and options.expires > self._sessions.clock()

    async def _options(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        parse_body(await read_json(request, self._validator), EmptyBody)
        session, person = self._required_session(request), person_of(request.caller)
        options = ProofOptions(session.nonce, self._sessions.clock() + _OPTIONS_SECONDS)
        sealed = self._sessions.seal(options, _OPTIONS_CONTEXT)
        public_key = await self._passkeys.authentication_options(person, _purpose(sealed), request.headers)
        if public_key is None:
            raise Malformed("there is no passkey of this person that works at this address; send a code")
        return json_response({"id": sealed, "publicKey": msgspec.json.decode(public_key)})

    async def _token(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        parse_body(await read_json(request, self._validator), EmptyBody)
        _proven(request)
        session = self._session(request)
        if session is None:  # the caller's own proof counts at every endpoint
            return json_response({"token": None, "expiresAt": None})
        token, expires = self._sessions.bearer_token(session)
        return json_response({"token": token, "expiresAt": iso_time(expires)})

    def _session(self, request: HttpRequest) -> BrowserSession | None:
        """Return the session that authenticated the request; None for one that proves itself in another way."""
        session = self._sessions.read(request.headers) if b"cookie" in request.headers else None
        return session if session is not None and session.is_signed_in and not request.caller.local else None

    def _required_session(self, request: HttpRequest) -> BrowserSession:
        session = self._session(request)
        if session is None:
            raise StateConflict(_NO_SESSION)
        return session


def _proven(request: HttpRequest) -> Caller:
    if request.caller.proof == "none":
        raise Unauthenticated
    return request.caller


def _purpose(options: str) -> str:
    """Return what a passkey signs: these options, which belong to one session and expire."""
    return f"session {options}"


def _is_of_client(dialect: str) -> bool:
    return not dialect.endswith(CONSOLE_SUFFIX) and dialect.partition("/")[0] not in _OWN_DIALECTS
