"""No secret of a running call comes into the log, however it is raised or logged (threat G8)."""

import asyncio
import logging
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.builders import call_of, tool_named
from toolhall.authoring.context import PausableDeadline
from toolhall.model.caller import Allow
from toolhall.model.content import Result
from toolhall.model.errors import Crashed, ToolFailed
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call
from toolhall.model.secret import Secret
from toolhall.model.tool import Tool
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.states import Equipped
from toolhall.pipeline.validate import Check
from toolhall.redaction import log_redaction
from toolhall.redaction.log_redaction import (
    MAX_RECENT,
    RECENT_SECONDS,
    RedactingExceptionHooks,
    SecretsInUse,
    StreamRedactor,
)
from toolhall.redaction.redactor import Redactor
from toolhall.redaction.secret_patterns import REDACTED
from toolhall.registry.snapshot import compile_entry

SECRET = "Zq7-x9_Kw.v3"


class CoroutineRunner:
    """A runner whose tool is a coroutine function of the test."""

    def __init__(self, work: Callable[[], Awaitable[object]]) -> None:
        self._work = work

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        return self._work()


def equipped(work: Callable[[], Awaitable[object]]) -> Equipped:
    entry = compile_entry(tool_named("pick"), CoroutineRunner(work))
    return Equipped(call_of(), entry, Allow("test", 1), {}, None, Redactor((Secret(SECRET),)))


def logged_text(caplog: pytest.LogCaptureFixture) -> str:
    """Everything that a handler could write of the records."""
    return "".join(f"{record.__dict__}{logging.Formatter().format(record)}" for record in caplog.records)


async def test_logged_exception_of_a_tool_contains_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        try:
            raise ValueError(SECRET.encode().hex())
        except ValueError:
            error = RuntimeError(f"cannot log in with {SECRET}")
            error.add_note(SECRET)
            raise error from None

    with pytest.raises(Crashed) as failure:
        await Run(10)(equipped(work))
    assert SECRET not in str(failure.value)
    assert SECRET not in logged_text(caplog)
    assert f"RuntimeError: cannot log in with {REDACTED}" in logged_text(caplog)


@pytest.mark.parametrize("name", ["toolhall", "toolhall.run", "httpx", "a.tools.own"])
async def test_log_records_of_any_logger_during_a_call_contain_no_secret(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    async def work() -> None:
        logging.getLogger(name).error("%s and %r", SECRET, {"a": SECRET})
        logging.getLogger(name).error("%d", SECRET)  # cannot be written, and must not be printed instead
        await asyncio.to_thread(logging.getLogger(name).error, SECRET)

    await Run(10)(equipped(work))
    assert len(caplog.records) == 3
    assert SECRET not in logged_text(caplog)


async def test_tool_failed_message_detail_and_prompt_contain_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ToolFailed(f"not with {SECRET}", detail=f"detail {SECRET}", prompt=f"prompt {SECRET}")

    with pytest.raises(ToolFailed) as failure:
        await Run(10)(equipped(work))
    error = failure.value
    assert (error.message, error.detail, error.prompt) == (
        f"not with {REDACTED}",
        f"detail {REDACTED}",
        f"prompt {REDACTED}",
    )
    assert error.args == (f"not with {REDACTED}",)
    assert not caplog.records


async def test_truncated_error_message_contains_no_part_of_a_secret() -> None:
    async def work() -> None:
        raise ToolFailed("x" * (8_000 - 8) + SECRET)

    with pytest.raises(ToolFailed) as failure:
        await Run(10)(equipped(work))
    assert SECRET[:5] not in failure.value.message


async def test_log_of_an_unserializable_result_contains_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        pass

    Odd.__name__ = SECRET

    async def work() -> object:
        return {"a": Odd()}

    raw = await Run(10)(equipped(work))
    with pytest.raises(Exception, match="cannot be written"):
        Check(1_000)(raw)
    assert caplog.records
    assert SECRET not in logged_text(caplog)


async def test_result_of_a_call_contains_no_secret() -> None:
    async def work() -> object:
        return {"a": SECRET}

    raw = await Run(10)(equipped(work))
    result = Sanitize()(Check(1_000)(raw))
    assert isinstance(result, Result)
    assert result.encoded == b'{"a":"[redacted]"}'
    assert raw.redactor is not None
    assert raw.redactor.count == 1


async def test_log_redaction_hides_a_secret_for_a_while_after_its_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        return None

    logging.getLogger("toolhall.run").error("%s", SECRET)
    assert caplog.records[-1].args == (SECRET,)
    await Run(10)(equipped(work))
    logging.getLogger("toolhall.run").error("%s and more", SECRET, stack_info=True)
    assert caplog.records[-1].getMessage() == f"{REDACTED} and more"
    caplog.clear()
    logging.getLogger("toolhall.run").error("%s", "Zq7-y8_Kw.v3")
    assert caplog.records[-1].getMessage() == "Zq7-y8_Kw.v3"


def test_secrets_in_use_are_bounded_in_time_and_number() -> None:
    now = 0.0
    in_use = SecretsInUse(lambda: now)
    used = [Secret(f"secret number {number:03d}!") for number in range(MAX_RECENT + 2)]
    for each in used:
        in_use.acquire((each,))
        in_use.acquire((each,))
    for each in used:
        in_use.release((each,))
    assert hidden(in_use, used) == used, "each still has a call that runs"
    for each in used:
        in_use.release((each,))
        now += 1
    assert hidden(in_use, used) == used[2:]
    now += RECENT_SECONDS - 3
    assert hidden(in_use, used) == used[-2:]
    now += 3
    assert in_use.redactor() is None
    in_use.acquire((used[0],))
    in_use.release((used[0],))
    assert hidden(in_use, used) == used[:1]


class ObservedDict(dict[Secret, int]):
    """Tells after each change of it whether the secret is known."""

    def __init__(self, observe: Callable[[], None]) -> None:
        super().__init__()
        self._observe = observe

    def __setitem__(self, secret: Secret, count: int) -> None:
        super().__setitem__(secret, count)
        self._observe()

    def pop(self, *args: Any) -> Any:
        found = super().pop(*args)
        self._observe()
        return found


def test_secrets_in_use_redact_a_secret_at_every_step_of_acquire_and_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes a line takes no lock: it may be written between any two steps of a call that ends or begins."""
    in_use, secret, seen = SecretsInUse(), Secret(SECRET), list[bool]()

    def observe() -> None:
        redactor = in_use.redactor()
        seen.append(redactor is not None and redactor.redact_text(SECRET) == REDACTED)

    calls = ObservedDict(observe)
    monkeypatch.setattr(in_use, "_calls", calls)
    for change in (
        in_use.acquire,
        in_use.acquire,
        in_use.release,
        in_use.acquire,
        in_use.release,
        in_use.release,
        in_use.acquire,
    ):
        change((secret,))
    assert len(seen) == 7
    assert all(seen)
    assert calls == {secret: 1}


def hidden(in_use: SecretsInUse, secrets: list[Secret]) -> list[Secret]:
    redactor = in_use.redactor()
    assert redactor is not None
    return [each for each in secrets if redactor.redact_text(each.reveal()) == REDACTED]


@pytest.fixture
def in_use() -> Iterator[None]:
    """Some call has the secret, and still runs."""
    log_redaction.SECRETS_IN_USE.acquire((Secret(SECRET),))
    yield
    log_redaction.SECRETS_IN_USE.release((Secret(SECRET),))


@pytest.mark.usefixtures("in_use")
@pytest.mark.parametrize("size", [1, 3, 8, 11, 100])
def test_stream_redactor_hides_a_secret_split_at_any_position(size: int) -> None:
    redact, stream = StreamRedactor(), f"\udcff before {SECRET} after\nnext {SECRET}\n".encode(errors="surrogateescape")
    seen = b"".join(redact(stream[at : at + size]) for at in range(0, len(stream), size))
    assert seen.startswith(b"\xff before ")
    assert seen.endswith(b"\n")
    assert b" after\nnext " in seen
    assert not any(SECRET[at : at + 5].encode() in seen for at in range(len(SECRET) - 4))


@pytest.mark.usefixtures("in_use")
def test_exception_hooks_redact_secrets_and_pass_other_errors_to_the_previous_hooks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list[object]()
    monkeypatch.setattr(sys, "excepthook", _noting(before))
    monkeypatch.setattr(threading, "excepthook", before.append)
    monkeypatch.setattr(sys, "unraisablehook", before.append)
    monkeypatch.setattr(warnings, "showwarning", _noting(before))
    RedactingExceptionHooks().install()
    for text in (SECRET, "harmless"):
        error = RuntimeError(text)
        sys.excepthook(RuntimeError, error, None)
        thread = threading.Thread(target=_raise, args=(error,))
        thread.start()
        thread.join()
        warnings.showwarning(UserWarning(text), UserWarning, "file.py", 1)
        given: Any = SimpleNamespace(exc_value=error, exc_traceback=None, err_msg=None, object=None)
        sys.unraisablehook(given)
        if text == SECRET:
            assert not before
    printed = capsys.readouterr().err
    assert printed.count(REDACTED) == 4
    assert SECRET not in printed
    assert len(before) == 4


def _noting(called: list[object]) -> Callable[..., None]:
    def note(*given: object) -> None:
        called.append(given)

    return note


def _raise(error: Exception) -> None:
    raise error
