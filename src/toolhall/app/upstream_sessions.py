"""UpstreamSessionOpener: where each upstream is, what the hall says of itself, and which era is tried first."""

from collections.abc import Callable

import msgspec

from toolhall import __version__
from toolhall.app.upstream_credentials import dialer_for
from toolhall.config import Config
from toolhall.dialects.mcp.client_handshake import Era
from toolhall.execution.upstream.credentials import ChildEnvironment
from toolhall.mcp_client.connect import open_session
from toolhall.mcp_client.session import McpSession, NotAcceptable, RpcError, SessionEvents
from toolhall.mcp_client.stdio_session import open_command
from toolhall.mcp_client.targets import ClientProfile, CommandTarget, HttpTarget, QuestionHandler, SessionCredentials
from toolhall.model.upstream import Upstream

_CLIENT_NAME = "toolhall"


class UpstreamSessionOpener:
    """Opens the sessions; `last_era` returns what an upstream spoke when it was last reached, before this start."""

    def __init__(self, config: Config, last_era: Callable[[str], Era | None]) -> None:
        self._config = config
        self._last_era = last_era
        self._profile = ClientProfile(
            name=_CLIENT_NAME, version=__version__, title="Toolhall", max_message_bytes=config.max_frame_bytes
        )
        # A server asks for roots once and keeps them, so only a session of one client has them.
        self._client_profile = msgspec.structs.replace(self._profile, features=(*self._profile.features, "roots"))

    async def __call__(
        self,
        upstream: Upstream,
        events: SessionEvents,
        questions: QuestionHandler,
        *,
        era: Era | None,
        credentials: SessionCredentials,
        env: ChildEnvironment,
    ) -> McpSession:
        """Return the open session; raises the errors of `mcp_client.session`."""
        profile = self._client_profile if upstream.settings.share == "session" else self._profile

        async def attempt(known: Era | None) -> McpSession:
            target = _target(upstream, env)
            if isinstance(target, CommandTarget):
                return await open_command(target, profile, events, era=known, questions=questions)
            return await open_session(
                target,
                profile,
                events,
                dialer=dialer_for(upstream, self._config),
                era=known,
                credentials=credentials.opening,
                listening=credentials.listening,
                questions=questions,
            )

        remembered = self._last_era(upstream.name) if era is None else era
        try:
            return await attempt(remembered)
        except (NotAcceptable, RpcError):
            if remembered is None:
                raise
            return await attempt(None)  # it may speak another revision by now


def _target(upstream: Upstream, env: ChildEnvironment) -> HttpTarget | CommandTarget:
    settings = upstream.settings
    if settings.url is not None:
        return HttpTarget(settings.url, transport=settings.transport)
    return CommandTarget(
        command=settings.command or "",
        args=settings.args,
        env=env.variables,
        cwd=settings.cwd,
        max_memory=settings.max_memory,
        secrets=env.secrets,
    )
