"""`UpstreamOpener`: the SessionOpener over HTTP and pipes: what the hall says of itself, and where it dials."""

from collections.abc import Callable, Mapping

import msgspec

from toolhall.dialects.mcp.client_handshake import Era
from toolhall.egress.addresses import EgressRefused
from toolhall.egress.resolver import Dialer
from toolhall.mcp_client.connect import open_session
from toolhall.mcp_client.session import Headers, McpSession, NotAcceptable, SessionEvents
from toolhall.mcp_client.targets import ClientProfile, CommandTarget, HttpTarget, QuestionHandler
from toolhall.model.upstream import Upstream

# What the hall offers to every upstream, whatever the client of a call can do: lists depend on it.
OFFERED_FEATURES = ("elicitation", "elicitation.url", "sampling")
ROOTS = "roots"  # asked for once and kept by a server, so only sessions of one client have them


class UpstreamOpener:
    """Opens sessions with upstreams."""

    def __init__(self, profile: ClientProfile, dialer_for: Callable[[Upstream], Dialer], *, local: bool) -> None:
        """`dialer_for` decides which addresses an upstream may be at; `local` is the profile of that name."""
        self._profile = msgspec.structs.replace(profile, features=OFFERED_FEATURES)
        self._client_profile = msgspec.structs.replace(profile, features=(*OFFERED_FEATURES, ROOTS))
        self._dialer_for = dialer_for
        self._local = local

    async def __call__(
        self,
        upstream: Upstream,
        events: SessionEvents,
        questions: QuestionHandler,
        *,
        era: Era | None,
        credentials: Headers,
        env: Mapping[str, str],
    ) -> McpSession:
        """SessionOpener: detect the era unless it is known, and do the handshake."""
        is_of_one_client = upstream.settings.effective_share(local=self._local) == "session"
        try:
            return await open_session(
                target_of(upstream, env),
                self._client_profile if is_of_one_client else self._profile,
                events,
                dialer=self._dialer_for(upstream),
                era=era,
                credentials=credentials,
                questions=questions,
            )
        except EgressRefused as refused:
            raise NotAcceptable(str(refused)) from None


def target_of(upstream: Upstream, env: Mapping[str, str]) -> HttpTarget | CommandTarget:
    """Where an upstream is; its headers come with each request, as credentials."""
    settings = upstream.settings
    if settings.url is not None:
        return HttpTarget(settings.url, transport=settings.transport)
    return CommandTarget(
        command=settings.command or "",
        args=settings.args,
        env=env,
        cwd=settings.cwd,
        max_memory=settings.max_memory,
    )
