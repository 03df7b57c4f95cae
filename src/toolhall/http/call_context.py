"""The context of a call that comes by a request: `respond`, `impersonate`, `NoInteractionLink`, cancellation.

`impersonate` sets the user that a caller acts for, if its scopes allow it and the id is unambiguous to a human
reader. `NoInteractionLink` is the client link of dialects without notifications and questions: a tool that asks is
refused. A running call is cancelled by a closed connection (`DisconnectWatch`) or by a message (`CancellableCall`).
Both are armed when the call first has to wait, by the dispatcher's hook or by `on_first_suspend`: a call that finishes
at once creates no task and no watcher, and is not registered.
"""

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from toolhall.concurrency import on_first_suspend
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator, omits_body
from toolhall.model.caller import ACT_AS, Caller
from toolhall.model.errors import Cancelled, Denied, Malformed, Unsupported
from toolhall.model.messages import Answered, CallEvent, Question, WireResponse, required_feature
from toolhall.model.text import clean_text

MAX_USER_ID = 256
_NOT_ALLOWED = (
    "context.user_id names another user than this caller; leave it out, or use a credential with the scope act_as"
)
_BAD_USER_ID = (
    f"context.user_id must be 1 to {MAX_USER_ID} printable characters in Unicode's composed form (NFC), "
    "without blanks around them or two in a row, without invisible characters, and with no combining mark at the "
    "beginning of a word"
)
# Unicode's property Default_Ignorable_Code_Point, as far as Python calls such characters printable, and the blank
# pattern of Braille: all of them may be drawn as nothing. A regular expression's character class.
INVISIBLE = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
_NOT_IN_USER_ID = re.compile(f"{INVISIBLE}|  ")  # no emoji styles either, for which other texts keep some of these
T = TypeVar("T")
_MAX_IDLE_MESSAGES = 3
# Caller, connection (two programs of one caller may use the same ids on two connections) and call id.
CallKey: TypeAlias = tuple[str, str, str | int]
# Answers the body of a request; the last argument is the hook to call when it first has to wait, perhaps repeatedly.
AnswerMessage: TypeAlias = Callable[[HttpRequest, bytes, Callable[[], None]], Awaitable[WireResponse]]


def impersonate(caller: Caller, user_id: str | None) -> Caller:
    """Return the caller acting for a user; Denied without the scope `act_as`, Malformed for an ambiguous id.

    The id decides whose secrets and accounts a call uses, and a person reads it before approving: no part of it may be
    invisible, or have two spellings. Letters of different scripts that look alike are different letters.
    """
    if user_id is None or user_id in caller.names:
        return caller
    if ACT_AS not in caller.scopes:
        raise Denied(_NOT_ALLOWED, scopes=(ACT_AS,))
    if not _is_valid_user_id(user_id):
        raise Malformed(_BAD_USER_ID)
    return msgspec.structs.replace(caller, acting_for=user_id)


def _is_valid_user_id(user_id: str) -> bool:
    return (
        0 < len(user_id) <= MAX_USER_ID
        and user_id.isprintable()
        and user_id == user_id.strip()
        and _NOT_IN_USER_ID.search(user_id) is None
        and (user_id.isascii() or _is_canonical_unicode(user_id))
    )


def _is_canonical_unicode(user_id: str) -> bool:
    return unicodedata.normalize("NFC", user_id) == clean_text(user_id) == user_id and not any(
        unicodedata.category(word[0]).startswith("M") for word in user_id.split(" ")
    )


class NoInteractionLink:
    """The client link of dialects without notifications and questions; a tool that asks a question is refused."""

    def emit(self, event: CallEvent) -> None:
        """Drop the event."""

    def can(self, feature: str) -> bool:  # noqa: ARG002 - none
        """Support nothing."""
        return False

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Raise Unsupported for the first question."""
        for question in questions.values():
            raise Unsupported(required_feature(question))
        return {}

    async def detach(self, retry_ms: int) -> None:
        """Do nothing: the client cannot resume."""


NO_INTERACTION = NoInteractionLink()


def with_hook(work: Awaitable[T], on_suspend: Callable[[], None] | None) -> Awaitable[T]:
    """Return the work so that it calls the hook, if there is one, when it first has to wait."""
    return work if on_suspend is None else on_first_suspend(work, on_suspend)


async def respond(
    request: HttpRequest, validator: RequestValidator, answer: AnswerMessage, *, body_optional: bool = False
) -> None:
    """Send the response to the message in a request's body, unless the client disconnects before it is there.

    `answer` calls its hook when it first has to wait; only then, a disconnect is watched for.
    """
    body = request.body
    if not body:
        omitted = body_optional and omits_body(request.headers)
        body = b"" if omitted else await validator.read_body(request.headers, request.receive)
    watch = DisconnectWatch(request)
    try:
        wire = await answer(request, body, watch.start)
    except asyncio.CancelledError:
        if not watch.is_sole_cause():
            raise
        return
    finally:
        if watch.started:
            await watch.stop()
    if not request.try_reply(wire):
        await request.reply(wire)


async def cancel_on_disconnect(request: HttpRequest, work: Awaitable[T]) -> T | None:
    """Return the result of the work; if the client closes the connection first, cancel the work and return None."""
    watch = DisconnectWatch(request)
    try:
        return await on_first_suspend(work, watch.start)
    except asyncio.CancelledError:
        if not watch.is_sole_cause():
            raise
        return None
    finally:
        if watch.started:
            await watch.stop()


class DisconnectWatch:
    """Cancels the task that serves a request once its client has closed the connection.

    Armed by `start`, in the task that is to be cancelled. The owner handles CancelledError: it is the client's if
    `is_sole_cause`, and must be raised otherwise. `stop`, which must follow every `start`, takes the cancellation back.
    """

    # As class attributes, the initial values cost nothing per call.
    started = False
    disconnected = False
    _stopped = False
    _task: asyncio.Task[object] | None = None  # the one to cancel
    _receiver: asyncio.Task[None] | None = None

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    def start(self) -> None:
        """Watch from now on; the server calls back, or a task receives on its behalf. Later calls do nothing."""
        if self.started:
            return
        self.started = True
        extension = self._request.extension
        self._task = asyncio.current_task(None if extension is None else extension.loop)
        if not self._request.on_disconnect(self._on_disconnect):
            self._receiver = asyncio.create_task(self._receive())

    def is_sole_cause(self) -> bool:
        """Whether the disconnect, and nothing else, cancelled the task; the server's own cancellation ends more."""
        return self.disconnected and (self._task is None or self._task.cancelling() <= 1)

    async def stop(self) -> None:
        """Stop watching, and take back the cancellation: the server's task goes on."""
        self._stopped = True
        if self.disconnected and self._task is not None:
            self._task.uncancel()
        self._request.on_disconnect(None)
        if self._receiver is not None:
            self._receiver.cancel()
            await asyncio.gather(self._receiver, return_exceptions=True)

    async def _receive(self) -> None:
        # ASGI servers send nothing between the end of the body and the disconnect. One that repeats empty messages
        # instead would make this a busy loop, and never reports the disconnect.
        for _ in range(_MAX_IDLE_MESSAGES):
            if (await self._request.receive())["type"] == "http.disconnect":
                self._on_disconnect()
                return

    def _on_disconnect(self) -> None:
        if self._task is not None and not self._stopped:
            self.disconnected = True
            self._task.cancel()


class CancellableCalls:
    """Suspended calls by key; a call that finishes without suspending is not registered and cannot be cancelled."""

    def __init__(self) -> None:
        self._waiting: dict[CallKey, list[CancellableCall]] = {}

    async def run(self, keys: Sequence[CallKey], work: Awaitable[T]) -> T:
        """Await work that can be cancelled by each of these keys; raises Cancelled if a message cancelled it."""
        call = CancellableCall(self, keys)
        return await call.run(on_first_suspend(work, call.start))

    def cancel(self, key: CallKey) -> bool:
        """Cancel the calls of this key; False if none is suspended."""
        calls = self._waiting.get(key, ())
        for call in calls:
            call.cancel()
        return bool(calls)

    def add(self, key: CallKey, call: "CancellableCall") -> None:
        """Register a call under a key."""
        self._waiting.setdefault(key, []).append(call)

    def remove(self, key: CallKey, call: "CancellableCall") -> None:
        """Remove a call from a key."""
        calls = self._waiting[key]
        calls.remove(call)
        if not calls:
            del self._waiting[key]


class CancellableCall:
    """A call that a message can cancel by each of its keys, once it is suspended."""

    # As class attributes, the initial values cost nothing per call.
    _cancelled = False
    _task: asyncio.Task[object] | None = None  # once it is suspended

    def __init__(
        self, calls: CancellableCalls, keys: Sequence[CallKey], on_suspend: Callable[[], None] | None = None
    ) -> None:
        self._calls = calls
        self._keys = keys
        self._on_suspend = on_suspend

    async def run(self, work: Awaitable[T]) -> T:
        """Await work that calls `start` when it first has to wait; raises Cancelled if a message cancelled it."""
        try:
            return await work
        except asyncio.CancelledError:
            # A cancellation by another party ends more than this call.
            if self._cancelled and self._task is not None and self._task.cancelling() == 1:
                raise Cancelled from None
            raise
        finally:
            if self._task is not None:
                self._stop(self._task)

    def start(self) -> None:
        """Register the current task and pass the hook on; later calls do nothing."""
        if self._task is not None:
            return
        self._task = asyncio.current_task()
        for key in self._keys:
            self._calls.add(key, self)
        if self._on_suspend is not None:
            self._on_suspend()

    def cancel(self) -> None:
        """Cancel the call, but only once: a second cancellation would interrupt the cleanup of the tool."""
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def _stop(self, task: "asyncio.Task[object]") -> None:
        for key in self._keys:
            self._calls.remove(key, self)
        if self._cancelled:
            task.uncancel()
