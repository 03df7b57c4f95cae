"""`check_upstream`: looks step by step whether an upstream can be used, and says for each fault what to do.

The steps are: credentials, address (or command), TLS, era, handshake, list, findings. A step that fails ends the check:
those after it would only repeat what is known.
"""

import asyncio
import shutil
import ssl
import time
from collections.abc import Callable
from typing import Literal, NoReturn, TypeAlias

import msgspec

from toolhall.egress.addresses import EgressFailed, EgressRefused
from toolhall.egress.resolver import Dialer, NameNotFound
from toolhall.execution.upstream.connection import UpstreamConnection, UpstreamServices
from toolhall.execution.upstream.listing import fetch_listing
from toolhall.execution.upstream.sessions import HALL_KEY, PooledSession
from toolhall.mcp_client.session import (
    Headers,
    McpSession,
    NotAcceptable,
    NotSent,
    RateLimited,
    RpcError,
    Unauthorized,
)
from toolhall.model.errors import Malformed, ToolhallError
from toolhall.model.text import clean_line
from toolhall.model.upstream import Upstream, UpstreamListing

StepName: TypeAlias = Literal["credentials", "address", "TLS", "era", "handshake", "list", "findings"]
CONNECT_SECONDS = 10.0
_PACKAGES = {
    "npx": "Node.js",
    "npm": "Node.js",
    "node": "Node.js",
    "uvx": "uv",
    "uv": "uv",
    "docker": "Docker",
    "dnx": ".NET",
}


class CheckStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step: what was found, or what is wrong and what to do."""

    name: StepName
    passed: bool
    seconds: float
    text: str
    fix: str | None = None


class CheckTools(msgspec.Struct, frozen=True):
    """What a check needs beside what connections share."""

    dialer_for: Callable[[Upstream], Dialer] | None = None  # None: the address is looked at by the handshake alone
    findings_of: Callable[[Upstream, UpstreamListing], tuple[str, ...]] | None = None  # definitions that are withheld


async def check_upstream(
    upstream: Upstream, services: UpstreamServices, tools: CheckTools | None = None
) -> tuple[CheckStep, ...]:
    """Check an upstream in a session of its own; raises nothing but cancellation."""
    check = _Check(upstream, services, tools or CheckTools())
    try:
        await check.run()
    except _Failed:
        pass
    finally:
        await check.close()
    return tuple(check.steps)


class _Failed(Exception):
    """A step failed, and is in the list."""


class _Check:
    def __init__(self, upstream: Upstream, services: UpstreamServices, tools: CheckTools) -> None:
        self.steps: list[CheckStep] = []
        self._upstream = upstream
        self._tools = tools
        self._connection = UpstreamConnection(upstream, services)
        self._began = time.monotonic()

    async def run(self) -> None:
        credentials = await self._check_credentials()
        if self._connection.is_command:
            self._check_command()
        elif self._tools.dialer_for is not None:
            await self._check_address(self._tools.dialer_for(self._upstream))
        session = await self._check_handshake(credentials)
        listing = await self._check_list(session, credentials)
        if self._tools.findings_of is not None:
            found = self._tools.findings_of(self._upstream, listing)
            if found:
                self._fail("findings", "; ".join(found[:20]), "these are not offered; tell the author of the server")
            self._pass("findings", "every definition can be read")

    async def close(self) -> None:
        await self._connection.close()

    def _pass(self, name: StepName, text: str) -> None:
        now = time.monotonic()
        self.steps.append(CheckStep(name=name, passed=True, seconds=now - self._began, text=self._clean(text)))
        self._began = now

    def _fail(self, name: StepName, text: str, fix: str) -> NoReturn:
        seconds = time.monotonic() - self._began
        step = CheckStep(name=name, passed=False, seconds=seconds, text=self._clean(text), fix=self._clean(fix))
        self.steps.append(step)
        raise _Failed

    def _clean(self, text: str) -> str:
        return self._connection.redact(clean_line(text, 2_000))

    async def _check_credentials(self) -> Headers:
        try:
            await self._connection.fill_environment()
            credentials = await self._connection.headers(None)
        except ToolhallError as error:
            self._fail(
                "credentials", error.message, f"see 'toolhall upstream show {self._upstream.name}' for its settings"
            )
        settings = self._upstream.settings
        count = len(settings.header_secrets) + len(settings.env_secrets)
        self._pass("credentials", f"{count} secrets are set" if count else "none are needed by its settings")
        return credentials

    def _check_command(self) -> None:
        command = self._upstream.settings.command or ""
        found = shutil.which(command, path=self._connection.settings.env.get("PATH"))
        if found is None:
            package = _PACKAGES.get(command)
            fix = f"install {package}, which has it" if package else "install it, or write its whole path as command"
            self._fail("address", f"there is no program {command!r} in the PATH of the child", fix)
        self._pass("address", f"the program is {found}")

    async def _check_address(self, dialer: Dialer) -> None:
        url = self._upstream.settings.url or ""
        try:
            target = dialer.parse(url)
            async with asyncio.timeout(CONNECT_SECONDS):
                connected = await dialer.connect(target, _Once)
            connected.close()
        except EgressRefused as refused:
            self._fail("address", str(refused), "allow it in egress_allow, or write another URL")
        except NameNotFound:
            self._fail("address", "no such host is known", "look for a typing error in the URL")
        except ssl.SSLError as error:
            self._pass("address", "the host answers")
            self._fail("TLS", _tls_text(error), _tls_fix(error))
        except TimeoutError:
            self._fail(
                "address", f"nothing answered within {CONNECT_SECONDS:g} seconds", "see whether a firewall is between"
            )
        except (OSError, EgressFailed) as error:
            self._fail("address", _os_text(error), "see whether the server runs, and at this port")
        self._pass("address", f"{target.host}:{target.port} accepts connections")
        self._pass("TLS", "the certificate is valid" if target.scheme == "https" else "none: the URL begins with http")

    async def _check_handshake(self, credentials: Headers) -> McpSession:
        try:
            pooled: PooledSession = await self._connection.open_own(HALL_KEY, credentials)
        except Unauthorized as refused:
            await self._fail_credential(refused)
        except Exception as error:  # noqa: BLE001 - each is a finding
            self._fail("handshake", *_handshake_fault(error, self._upstream))
        server = pooled.session.server
        self._pass("era", f"{'modern' if server.revision.stateless else 'legacy'}, revision {server.revision.name}")
        self._pass("handshake", f"{server.name or 'a server without a name'} {server.version}".strip())
        return pooled.session

    async def _fail_credential(self, refused: Unauthorized) -> NoReturn:
        """Find out which credential is wanted, from whom, and whether it can be had."""
        if refused.status != 401:
            self._fail("credentials", refused.reason, "the credential lacks a scope: link the account again with more")
        self._fail("credentials", refused.reason, (await self._connection.missing(None, refused.challenge)).message)

    async def _check_list(self, session: McpSession, credentials: Headers) -> UpstreamListing:
        try:
            listing = (await fetch_listing(session, self._upstream.settings, credentials)).listing
        except Malformed as bad:
            self._fail("list", bad.message, "its list breaks the protocol: tell the author of the server")
        except Unauthorized as refused:
            await self._fail_credential(refused)
        except Exception as error:  # noqa: BLE001 - each is a finding
            self._fail("list", *_handshake_fault(error, self._upstream))
        counts = [
            f"{len(listed)} {what}"
            for what, listed in (
                ("tools", listing.tools),
                ("resources", (*listing.resources, *listing.templates)),
                ("prompts", listing.prompts),
            )
            if listed or what == "tools"
        ]
        self._pass("list", ", ".join(counts))
        return listing


class _Once(asyncio.Protocol):
    """A connection that is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def close(self) -> None:
        self._transport.close()


def _tls_text(error: ssl.SSLError) -> str:
    reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason or "no TLS"
    return f"TLS failed: {reason}"


def _tls_fix(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            "whoever runs the server has to renew or correct its certificate; for an authority of your own, set"
            " SSL_CERT_FILE to its certificate when the hall starts"
        )
    return "write http:// if the server speaks no TLS at this port, or give the right port"


def _os_text(error: Exception) -> str:
    return "the connection was refused" if isinstance(error, ConnectionRefusedError) else str(error)


def _handshake_fault(error: Exception, upstream: Upstream) -> tuple[str, str]:  # noqa: PLR0911 - one for each fault
    """What is wrong, and what to do about it."""
    is_command = upstream.settings.command is not None
    match error:
        case RateLimited():
            return error.reason, "wait, and check again"
        case NotSent() if is_command:
            return error.reason, "run the command in a terminal: it has to wait for input and print only JSON"
        case NotSent():
            return error.reason, "see whether the server runs, and at this URL"
        case NotAcceptable():
            fix = (
                "run the command in a terminal and see what it prints"
                if is_command
                else "give the URL of its MCP endpoint"
            )
            return error.reason, f"{fix}; often it ends in /mcp" if not is_command else fix
        case RpcError():
            return f"the server refused: {error.reason}", "its own log says more"
        case TimeoutError():
            return "the server did not answer in time", "see whether it is busy, and check again"
        case ToolhallError():
            return error.message, "see the settings of the upstream"
        case _:
            return getattr(error, "reason", None) or type(error).__name__, "its own log says more"
