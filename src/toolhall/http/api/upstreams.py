"""`/api/upstreams`: the servers of somebody else whose tools are offered; add, check, review and remove one.

A command is never taken over the network, whoever sends it: it comes from the machine's own files or its command line.
Why an upstream is as it is, is for administrators; its text is never shown as anything but text.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec

from toolhall.http.api.base import (
    EmptyBody,
    ItemHandlers,
    ManagementContext,
    dispatch_below,
    json_response,
    optional_time,
    parse_body,
    parse_sensitive_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.api.events import ACCEPT_UPSTREAM, UpstreamMark
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Malformed, NotFound
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import WireResponse
from toolhall.model.upstream import UpstreamSettings, UpstreamView, shown_settings, upstream_name_problem
from toolhall.oauth.providers import UPSTREAM_PREFIX
from toolhall.stores.accounts import Account

if TYPE_CHECKING:
    from toolhall.execution.upstream.check import CheckStep
    from toolhall.registration.upstream_definitions import UpstreamFinding
    from toolhall.registration.upstream_sync import UpstreamReview

PREFIX = "/api/upstreams/"
NO_COMMANDS = (
    "a command is not taken over the network, because whoever may add upstreams could run any program here; write it"
    " under [upstreams.NAME] in toolhall.toml, or name it at the machine: toolhall add --name NAME -- COMMAND"
)
_COMMAND_PARTS = ("command", "args", "env", "cwd", "max_memory", "start")
_NO_SUCH = "there is no such upstream; GET /api/upstreams lists them"
_EXAMPLE = '{"name": "Docs", "settings": {"url": "https://mcp.example.com/mcp"}}'


class NewUpstream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An upstream to add."""

    name: str
    settings: dict[str, object]


class SeenReview(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The digest of what somebody has seen and lets be served."""

    digest: Annotated[str, msgspec.Meta(pattern=r"^sha256-[0-9a-f]{64}$")]


class ManagedUpstreams(Protocol):
    """The upstreams of a hall, as they are managed; see `toolhall.app.upstreams`."""

    def listed(self) -> tuple[UpstreamView, ...]:
        """Return all of them, by name."""
        ...

    def marks(self) -> Mapping[str, UpstreamMark]:
        """Return what tells whether one has changed, by name; it is asked five times a second."""
        ...

    def end_waiting_call(self, memory: Mapping[str, bytes]) -> None:
        """Cancel a call that waits at its upstream, because its next request was refused."""
        ...

    def view(self, name: str) -> UpstreamView:
        """Return one; raises NotFound."""
        ...

    async def add(self, name: str, settings: UpstreamSettings, by: Caller) -> UpstreamView:
        """Add one; raises Malformed."""
        ...

    async def remove(self, name: str, by: Caller) -> None:
        """Remove it with its tools; raises NotFound, and Malformed for one that a file names."""
        ...

    async def set_off(self, name: str, *, off: bool, by: Caller) -> UpstreamView:
        """Switch it off or on."""
        ...

    async def check(self, name: str, by: Caller) -> "tuple[CheckStep, ...]":
        """Try everything that a call needs, step by step, with the account of whoever checks."""
        ...

    async def sync(self, name: str) -> UpstreamView:
        """Fetch its lists now."""
        ...

    def review(self, name: str) -> "UpstreamReview":
        """Return everything that waits for somebody's look."""
        ...

    def findings(self, name: str) -> "tuple[UpstreamFinding, ...]":
        """Return what was mended or withheld in its last list."""
        ...

    async def accept(self, name: str, digest: str, by: Caller) -> tuple[str, ...]:
        """Serve exactly what was shown; raises Malformed if something else waits by now."""
        ...


class UpstreamsApi:
    """`/api/upstreams`: observers see them, administrators change them; `find` returns None where there are none."""

    def __init__(
        self,
        context: ManagementContext,
        find: Callable[[], ManagedUpstreams | None],
        build: Callable[[], ManagedUpstreams],
        validator: RequestValidator,
        accounts: Callable[[str], Awaitable[Sequence[Account]]],
    ) -> None:
        """`accounts` returns the linked accounts of a user."""
        self._context = context
        self._accounts = accounts
        self._find = find
        self._build = build
        self._validator = validator
        self._by_action: dict[str, ItemHandlers] = {
            "check": {"POST": self._check},
            "sync": {"POST": self._sync},
            "off": {"POST": self._switch_off},
            "on": {"POST": self._switch_on},
            "review": {"GET": self._review, "POST": self._accept},
        }

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of upstreams."""
        message = "there is nothing here; /api/upstreams/NAME is an upstream, /api/upstreams/NAME/check checks it"
        return {
            "/api/upstreams": {"GET": self.list, "POST": self.add},
            PREFIX: dispatch_below(self._actions, message),
        }

    def _actions(self, request: HttpRequest) -> tuple[str, ItemHandlers] | None:
        match request.path_segments(PREFIX):
            case [str(name)] if name:
                return name, {"GET": self._show, "DELETE": self._remove}
            case [str(name), str(action)] if name and action in self._by_action:
                return name, self._by_action[action]
            case _:
                return None

    async def list(self, request: HttpRequest) -> None:
        """`GET /api/upstreams`."""
        await respond(request, self._list(request))

    async def add(self, request: HttpRequest) -> None:
        """`POST /api/upstreams`."""
        await respond(request, self._add(request))

    async def needs(self, caller: Caller) -> Sequence[JsonObject]:
        """Return the upstreams with definitions that wait for this caller's look, or for an account of theirs."""
        upstreams = self._find()
        if upstreams is None:
            return ()
        is_admin, views = self._context.dispatcher.admin.is_allowed(caller), upstreams.listed()
        unlinked = await self._unlinked(caller, views)
        rows = [(each.upstream.name, each.waiting if is_admin else 0) for each in views]
        return [
            {"name": name, "waiting": waiting, "link": name in unlinked}
            for name, waiting in rows
            if waiting or name in unlinked
        ]

    async def _unlinked(self, caller: Caller, views: Sequence[UpstreamView]) -> set[str]:
        """Return the upstreams that want an account of each user and have none of this one, who may see their tools."""
        settings = {each.upstream.name: each.upstream.settings for each in views}
        names = {name for name, each in settings.items() if each.auth == "oauth" and not each.off}
        if not names or caller.user is None:
            return set()
        if not self._context.dispatcher.admin.is_allowed(caller):
            names &= {entry.tool.id.toolkit for entry in self._context.dispatcher.visible_snapshot(caller).entries}
        accounts = await self._accounts(caller.user)
        linked = {each.provider for each in accounts if each.state == "connected"}
        return {name for name in names if f"{UPSTREAM_PREFIX}{name}" not in linked}

    def marks(self) -> Mapping[str, UpstreamMark]:
        """Return what tells, for events, whether an upstream has changed."""
        upstreams = self._find()
        return {} if upstreams is None else upstreams.marks()

    async def _list(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        upstreams = self._find()
        views = () if upstreams is None else upstreams.listed()
        return json_response({"upstreams": [self._row(each, request.caller) for each in views]})

    async def _show(self, request: HttpRequest, name: str) -> WireResponse:
        """`GET /api/upstreams/{name}`."""
        self._context.require_observer(request.caller)
        query_parameters(request)
        return json_response(self._row(self._known(name).view(name), request.caller))

    async def _add(self, request: HttpRequest) -> WireResponse:
        self._context.require_admin(request.caller)
        query_parameters(request)
        body = parse_sensitive_body(await read_json(request, self._validator), NewUpstream, _EXAMPLE)
        if problem := upstream_name_problem(body.name):
            raise Malformed(problem)
        action = f"add upstream {body.name}"

        async def refuse() -> UpstreamView:
            raise Denied(NO_COMMANDS)

        if any(part in body.settings for part in _COMMAND_PARTS):
            await self._context.change(action, {}, request.caller, refuse)  # it is in the audit who tried
        settings = _parse_settings(body.settings)

        async def apply() -> UpstreamView:
            return await self._build().add(body.name, settings, request.caller)

        added = await self._context.change(action, shown_settings(settings), request.caller, apply)
        return json_response(self._row(added, request.caller), 201)

    async def _remove(self, request: HttpRequest, name: str) -> WireResponse:
        """`DELETE /api/upstreams/{name}`."""

        async def apply() -> None:
            await self._known(name).remove(name, request.caller)

        body = await self._read_empty_body(request)
        await self._context.change(f"remove upstream {name}", body, request.caller, apply)
        return json_response({"removed": name})

    async def _check(self, request: HttpRequest, name: str) -> WireResponse:
        """`POST /api/upstreams/{name}/check`."""

        async def apply() -> "tuple[CheckStep, ...]":
            return await self._known(name).check(name, request.caller)

        body = await self._read_empty_body(request)
        steps = await self._context.change(f"check upstream {name}", body, request.caller, apply)
        return json_response(
            {"name": name, "ok": all(each.passed for each in steps), "steps": list(map(_step_json, steps))}
        )

    async def _sync(self, request: HttpRequest, name: str) -> WireResponse:
        """`POST /api/upstreams/{name}/sync`."""
        return await self._change_one(request, "sync", name, lambda: self._known(name).sync(name))

    async def _switch_off(self, request: HttpRequest, name: str) -> WireResponse:
        """`POST /api/upstreams/{name}/off`."""
        return await self._change_one(
            request, "switch off", name, lambda: self._known(name).set_off(name, off=True, by=request.caller)
        )

    async def _switch_on(self, request: HttpRequest, name: str) -> WireResponse:
        """`POST /api/upstreams/{name}/on`."""
        return await self._change_one(
            request, "switch on", name, lambda: self._known(name).set_off(name, off=False, by=request.caller)
        )

    async def _review(self, request: HttpRequest, name: str) -> WireResponse:
        """`GET /api/upstreams/{name}/review`."""
        self._context.require_admin(request.caller)  # definitions that nobody has looked at
        query_parameters(request)
        upstreams = self._known(name)
        return json_response(self._review_json(upstreams.review(name), upstreams.findings(name)))

    async def _accept(self, request: HttpRequest, name: str) -> WireResponse:
        """`POST /api/upstreams/{name}/review`."""
        query_parameters(request)
        body = await read_json(request, self._validator)
        seen = parse_sensitive_body(body, SeenReview, '{"digest": "sha256-..."} with the digest of what you looked at')

        async def apply() -> tuple[str, ...]:
            return await self._known(name).accept(name, seen.digest, request.caller)

        action = f"{ACCEPT_UPSTREAM}{name}"
        return json_response({"accepted": await self._context.change(action, body, request.caller, apply)})

    async def _change_one(
        self, request: HttpRequest, verb: str, name: str, apply: Callable[[], Awaitable[UpstreamView]]
    ) -> WireResponse:
        async def change() -> UpstreamView:
            return await apply()

        body = await self._read_empty_body(request)
        changed = await self._context.change(f"{verb} upstream {name}", body, request.caller, change)
        return json_response(self._row(changed, request.caller))

    def _known(self, name: str) -> ManagedUpstreams:
        """Return the upstreams if there are any; raises NotFound for this one otherwise."""
        upstreams = self._find()
        if upstreams is None or upstream_name_problem(name):
            raise NotFound(_NO_SUCH)
        return upstreams

    async def _read_empty_body(self, request: HttpRequest) -> Json:
        query_parameters(request)
        body = await read_json(request, self._validator)
        parse_body(body, EmptyBody)
        return body

    def _review_json(self, review: "UpstreamReview", findings: "Sequence[UpstreamFinding]") -> JsonObject:
        """Return everything of an upstream that waits for a look, with the digest that a yes names."""
        return {
            "name": review.name,
            "digest": review.digest,
            "tools": [
                {
                    "id": each.id,
                    "kind": each.kind,
                    "was": None if each.after is None else f"{each.id.rpartition('@')[0]}@{each.after}",
                    "refused": each.refused,
                    "changes": each.changes,
                    "findings": each.findings,
                    "document": msgspec.Raw(self._context.registration.find(each.id).document),
                }
                for each in review.items
            ],
            "withheld": [
                {"tool": each.name, "reason": "; ".join(finding.fix for finding in each.findings)}
                for each in findings
                if each.withheld
            ],
        }

    def _row(self, view: UpstreamView, caller: Caller) -> JsonObject:
        upstream, status = view.upstream, view.status
        named = status.server_name is not None
        return {
            "name": upstream.name,
            "state": status.state,
            "reason": status.reason if self._context.dispatcher.admin.is_allowed(caller) else None,
            "target": upstream.settings.target,
            "settings": shown_settings(upstream.settings),
            "source": upstream.source,
            "where": upstream.where,
            "era": status.era,
            "revision": status.revision,
            "server": {"name": status.server_name, "version": status.server_version or ""} if named else None,
            "tools": view.tools,
            "waiting": view.waiting,
            "since": optional_time(status.since),
            "lastSync": optional_time(status.last_sync),
            "nextTry": optional_time(status.next_try),
            "sessions": status.sessions,
            "children": status.children,
            "restarts": status.restarts,
            "lostCalls": status.lost_calls,
            "parkedCalls": status.parked_calls,
        }


def _parse_settings(settings: Mapping[str, object]) -> UpstreamSettings:
    """Convert the settings; Malformed says what is wrong with a part, and repeats no value."""
    try:
        return msgspec.convert(settings, UpstreamSettings)
    except msgspec.ValidationError as error:
        raise Malformed(f"settings: {str(error)[:320]}") from None


def _step_json(step: "CheckStep") -> JsonObject:
    return {
        "name": step.name,
        "ok": step.passed,
        "seconds": round(step.seconds, 3),
        "detail": step.text,
        "fix": step.fix,
    }
