"""Recording: opt-in, after the pipeline has cleaned the answer, and never the reason why a call fails."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from tests.unit.builders import Clock, call_of, entry_named, nested
from toolhall.app import Toolhall
from toolhall.authoring.context import Context
from toolhall.authoring.declaration import Toolkit, tool
from toolhall.config import BadConfig, Config
from toolhall.model.call_records import MAX_VALUE_BYTES, Recording
from toolhall.model.caller import LOCAL, Allow
from toolhall.model.content import Image, Reply, Resource, ResourceLink, Result, Text
from toolhall.model.errors import ToolFailed
from toolhall.model.messages import CallTool, CompletedCall, InputRequiredSignal, Roots
from toolhall.pipeline.call_recorder import CallRecorder
from toolhall.pipeline.states import Equipped
from toolhall.redaction.secret_patterns import REDACTED

CANARY = "hunter2-canary"


class Notes(Toolkit, version="1.2.0"):
    """Notes."""

    @tool(effect="reads")
    async def find(self, word: str, limit: int = 1) -> list[str]:
        """Find notes."""
        return [word] * limit

    @tool
    async def empty(self, rows: list[int]) -> int:
        """Take the rows away."""
        count = len(rows)
        rows.clear()
        return count

    @tool
    async def login(self, user: str, password: str) -> dict[str, str]:
        """Log in."""
        return {"hello": f"{user} {password}", "sessionToken": "abcdef"}

    @tool
    async def unlock(self, door: Annotated[str, Meta(extra_json_schema={"writeOnly": True})]) -> str:
        """Open a door."""
        return "opened"

    @tool
    async def get_secret(self, at: str) -> str:
        """Fetch it."""
        return CANARY

    @tool
    async def refuse(self) -> None:
        """Say no."""
        raise ToolFailed(f"no: password={CANARY}")

    @tool
    async def say_error(self) -> Reply:
        """Say no as a result."""
        return Reply((Text("no"),), is_error=True)

    @tool
    async def crash(self) -> None:
        """Break."""
        raise ValueError(CANARY)

    @tool
    async def ask(self, ctx: Context) -> None:
        """Ask."""
        raise InputRequiredSignal({"where": Roots()})

    @tool
    async def show(self) -> Reply:
        """Show everything."""
        link = ResourceLink(uri="file:///a", name="a")
        blocks = (
            Text("a\x1b[31mb"),
            Image(b"123"),
            link,
            Resource(uri="x:", content="c"),
            Resource(uri="y:", content=b""),
        )
        return Reply(blocks, {"n": 1})


@tool
async def other(text: str) -> str:
    """Not of the toolkit."""
    return text


def config(folder: Path, *globs: str) -> Config:
    return Config(data=str(folder), record=globs)


async def called(folder: Path, name: str, *globs: str, **arguments: Any) -> list[Recording]:
    """What is recorded of one call."""
    with Toolhall(Notes, other, config=config(folder, *(globs or ("*",)))) as hall:
        await hall.dispatcher.answer(CallTool(name, arguments, "test"), LOCAL)
    return recorded(folder)


def recorded(folder: Path) -> list[Recording]:
    return msgspec.json.Decoder(Recording).decode_lines((folder / "recordings.jsonl").read_bytes())


async def test_recording_contains_the_call_and_its_answer(tmp_path: Path) -> None:
    (found,) = await called(tmp_path, "Notes_find", word="a", limit=2)
    assert (found.tool, found.dialect, found.outcome) == ("Notes.find@1.2.0", "test", "ok")
    assert (found.arguments, found.answer) == ({"word": "a", "limit": 2}, {"value": ["a", "a"]})
    assert (found.redacted, found.omitted) == ((), ())
    assert found.time > 1.7e9
    assert (tmp_path / "recordings.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("globs", "count"), [(["*"], 1), (["Notes.*"], 1), (["x", "Notes.find@1.*"], 1), (["Notes.find@2.*"], 0)]
)
async def test_recorder_records_only_tools_that_match_a_glob(tmp_path: Path, globs: list[str], count: int) -> None:
    assert len(await called(tmp_path, "Notes_find", *globs, word="a")) == count
    before = len(recorded(tmp_path))
    assert len(await called(tmp_path, "other", "Notes.*", text="x")) == before


async def test_recorder_without_record_setting_writes_no_file(tmp_path: Path) -> None:
    with Toolhall(other, config=Config(data=str(tmp_path))) as hall:
        assert isinstance(await hall.dispatcher.answer(CallTool("other", {"text": "x"}, "test"), LOCAL), CompletedCall)
    assert not (tmp_path / "recordings.jsonl").exists()


def test_record_setting_without_data_folder_raises_bad_config_at_start() -> None:
    with pytest.raises(BadConfig, match="set 'data'"):
        Toolhall(other, config=Config(record=("*",)))


async def test_recording_contains_the_arguments_as_sent_when_the_tool_mutates_them(tmp_path: Path) -> None:
    (found,) = await called(tmp_path, "Notes_empty", rows=[1, 2])
    assert (found.arguments, found.answer) == ({"rows": [1, 2]}, {"value": 2})


async def test_recording_redacts_secrets_in_arguments_and_answer(tmp_path: Path) -> None:
    (found,) = await called(tmp_path, "Notes_login", user="me", password=CANARY)
    assert found.arguments == {"user": "me", "password": REDACTED}
    assert found.answer == {"value": {"hello": f"me {REDACTED}", "sessionToken": REDACTED}}
    assert found.redacted == ("/arguments/password", "/answer/value/hello", "/answer/value/sessionToken")
    assert CANARY not in (tmp_path / "recordings.jsonl").read_text()


async def test_recording_redacts_fields_marked_in_the_schema_and_results_of_secret_named_tools(tmp_path: Path) -> None:
    (found,) = await called(tmp_path, "Notes_unlock", door="front")
    assert (found.arguments, found.redacted) == ({"door": REDACTED}, ("/arguments/door",))
    _, found = await called(tmp_path, "Notes_get_secret", at="home")
    assert (found.arguments, found.answer) == ({"at": "home"}, {"value": REDACTED})


async def test_recording_contains_tool_errors_as_answers(tmp_path: Path) -> None:
    (found,) = await called(tmp_path, "Notes_refuse")
    assert (found.outcome, found.answer) == ("tool_error", {"content": [f"no: password={REDACTED}"]})
    _, found = await called(tmp_path, "Notes_say_error")
    assert (found.outcome, found.answer) == ("tool_error", {"content": ["no"]})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("Notes_crash", {}), ("Notes_ask", {}), ("Notes_find", {"word": 7}), ("missing", {"word": CANARY})],
)
async def test_recorder_skips_calls_that_crashed_asked_or_were_refused(
    tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    assert await called(tmp_path, name, **arguments) == []


async def test_recording_contains_content_blocks_as_sanitized_text_and_digests(tmp_path: Path) -> None:
    (found,) = await called(tmp_path, "Notes_show")
    assert found.answer["value"] == {"n": 1}
    text, image, link, resource, blob = found.answer["content"]
    assert (text, link, resource) == ("ab", "file:///a", "c")
    assert image.startswith("[image/png, 3 bytes, sha256 a665a459")
    assert blob.startswith("[y:, 0 bytes, sha256 ")


@pytest.mark.parametrize(
    ("letters", "omitted"), [(MAX_VALUE_BYTES - 100, ()), (MAX_VALUE_BYTES + 1, ("/arguments", "/answer"))]
)
async def test_recording_omits_values_above_the_size_limit_and_marks_them(
    tmp_path: Path, letters: int, omitted: tuple[str, ...]
) -> None:
    (found,) = await called(tmp_path, "other", text="x " * (letters // 2))
    assert found.omitted == omitted
    assert (found.arguments is None) is bool(omitted)
    assert (found.answer is None) is bool(omitted)
    assert (tmp_path / "recordings.jsonl").stat().st_size < 3 * MAX_VALUE_BYTES


async def test_recorder_uses_the_new_schema_of_a_tool_that_was_removed_and_added_again(tmp_path: Path) -> None:
    """An id may return with another schema; what was found out about the old one no longer holds."""

    def opener(extra: dict[str, Any]) -> Any:
        @tool(name="opener")
        async def door(number: Annotated[str, Meta(extra_json_schema=extra)]) -> str:
            return "opened"

        return door

    with Toolhall(opener({}), config=config(tmp_path, "*")) as hall:
        await hall.dispatcher.answer(CallTool("opener", {"number": "one"}, "test"), LOCAL)
        hall.remove("opener")
        hall.add(opener({"format": "password"}))
        await hall.dispatcher.answer(CallTool("opener", {"number": "two"}, "test"), LOCAL)
    assert [each.arguments for each in recorded(tmp_path)] == [{"number": "one"}, {"number": REDACTED}]


async def test_full_recordings_file_stops_recording_and_calls_still_succeed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (tmp_path / "recordings.jsonl").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    with Toolhall(other, config=config(tmp_path, "*")) as hall:
        calls = [hall.dispatcher.answer(CallTool("other", {"text": "x"}, "test"), LOCAL) for _ in range(5)]
        assert all(isinstance(answer, CompletedCall) for answer in await asyncio.gather(*calls))
    assert caplog.text.count("no longer recorded") == 1
    assert (tmp_path / "recordings.jsonl").stat().st_size <= 64 * 1024 * 1024 + 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
async def test_recording_write_error_is_logged_and_the_call_still_succeeds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "recordings.jsonl").symlink_to("/dev/full")
    with caplog.at_level(logging.ERROR), Toolhall(other, config=config(tmp_path, "*")) as hall:
        assert isinstance(await hall.dispatcher.answer(CallTool("other", {"text": "x"}, "test"), LOCAL), CompletedCall)
    assert "recorded calls could not be written" in caplog.text


async def test_recording_redacts_the_part_of_an_answer_beyond_the_maximum_depth(tmp_path: Path) -> None:
    @tool(input={"type": "object"})
    async def dig(**arguments: Any) -> Any:
        return nested(600, core=CANARY)

    with Toolhall(dig, config=config(tmp_path, "*")) as hall:
        assert isinstance(await hall.dispatcher.answer(CallTool("dig", {}, "test"), LOCAL), CompletedCall)
    (found,) = recorded(tmp_path)
    assert len(found.redacted) == 1
    assert CANARY not in (tmp_path / "recordings.jsonl").read_text()


def test_recorder_failure_is_logged_once_without_the_error_text(caplog: pytest.LogCaptureFixture) -> None:
    class Torn:
        full = False

        def append(self, record: bytes) -> None:
            raise ValueError(CANARY)

    recorder = CallRecorder(("*",), Torn(), Clock())
    for _ in range(3):
        begun = recorder(Equipped(call_of(), entry_named(), Allow("test"), {}))
        assert begun is not None
        begun.finish(Result(b"1"))
    assert caplog.text.count("a call of Kit.pick@1.0.0 cannot be recorded: ValueError") == 1
    assert CANARY not in caplog.text
