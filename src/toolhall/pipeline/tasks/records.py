"""What a task's row keeps sealed: TaskCall, TaskMemory and TaskOutcome, with their JSON forms."""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolhall.execution.worker_protocol import (
    ErrorReport,
    TypedValue,
    caller_for_tool,
    decode_error,
    encode_error,
    from_typed_value,
    from_typed_values,
    to_typed_value,
    to_typed_values,
)
from toolhall.model.caller import Caller
from toolhall.model.content import Result
from toolhall.model.errors import ToolhallError
from toolhall.model.json import JsonObject
from toolhall.model.messages import Answered, Call, CallConsent, CallTool, CompletedCall, Question
from toolhall.schema.types import to_json

MAX_BYTES = 1_048_576  # of a result, and of a memory


class TaskCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call as it was made; never a credential of the caller."""

    tool: str  # with its version
    requested_name: str | None
    arguments: JsonObject
    dialect: str
    size: int
    caller: Caller
    features: tuple[str, ...]  # that the client declared
    consent: CallConsent | None = None

    @staticmethod
    def of(call: Call, tool: str, features: tuple[str, ...]) -> "TaskCall":
        """The call of this version of the tool."""
        return TaskCall(
            tool=tool,
            requested_name=call.requested_name,
            arguments=call.arguments,
            dialect=call.dialect,
            size=call.size,
            caller=caller_for_tool(call),
            features=features,
            consent=call.consent,
        )

    def request(self, consent: CallConsent | None) -> CallTool:
        """The request to run it again; a consent of a later run counts before that of the first."""
        return CallTool(
            self.tool, self.arguments, self.dialect, self.size, None, self.requested_name, consent or self.consent
        )


class TaskMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What a run from the top finds again: answers and results of `ctx.once`; and the questions that are open."""

    asked: dict[str, TypedValue] = {}
    answered: dict[str, TypedValue] = {}
    results: dict[str, bytes] = {}
    consent: CallConsent | None = None

    @property
    def questions(self) -> dict[str, Question]:
        """The open questions."""
        return from_typed_values(self.asked)

    def answers(self, keys: Mapping[str, object]) -> dict[str, Answered]:
        """The answers to these questions, which all have one."""
        return {key: from_typed_value(self.answered[key]) for key in keys}

    def with_questions(self, questions: Mapping[str, Question]) -> "TaskMemory":
        """Open these questions too; one that is open or answered stays as it is."""
        new = {key: each for key, each in questions.items() if key not in self.answered and key not in self.asked}
        return msgspec.structs.replace(self, asked={**self.asked, **to_typed_values(new)})

    def with_answers(self, answers: Mapping[str, Answered]) -> "TaskMemory":
        """Add answers; their questions are open no more."""
        return msgspec.structs.replace(
            self,
            asked={key: each for key, each in self.asked.items() if key not in answers},
            answered={**self.answered, **to_typed_values(answers)},
        )

    def with_result(self, key: str, value: bytes) -> "TaskMemory":
        """Add a result of `ctx.once`; the first one of a key stays."""
        return msgspec.structs.replace(self, results={key: value, **self.results})


class _StoredResult(msgspec.Struct, frozen=True):
    encoded: bytes | None
    content: tuple[TypedValue, ...]
    text: str | None
    meta: JsonObject | None
    is_error: bool


class TaskOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a task ended: by a result, or by an error."""

    result: _StoredResult | None = None
    error: ErrorReport | None = None

    @staticmethod
    def of(answer: CompletedCall | ToolhallError) -> "TaskOutcome":
        """The outcome of this answer; an error without its detail, which goes to the log only."""
        if isinstance(answer, ToolhallError):
            return TaskOutcome(error=msgspec.structs.replace(encode_error(answer), detail=None))
        result = answer.result
        content = tuple(map(to_typed_value, result.content))
        return TaskOutcome(result=_StoredResult(result.encoded, content, result.text, result.meta, result.is_error))

    def error_or_result(self) -> Result | ToolhallError:
        """The error, or the result as the sanitize stage made it."""
        if self.error is not None:
            return decode_error(self.error)
        stored = self.result or _StoredResult(None, (), None, None, is_error=False)
        content = tuple(map(from_typed_value, stored.content))
        return Result(stored.encoded, content, stored.text, stored.meta, stored.is_error)


def encode_record(record: TaskCall | TaskMemory | TaskOutcome) -> bytes:
    """The record as JSON, before it is sealed."""
    return to_json(record)


_call_decoder = msgspec.json.Decoder(TaskCall)
_memory_decoder = msgspec.json.Decoder(TaskMemory)
_outcome_decoder = msgspec.json.Decoder(TaskOutcome)
decode_call: Any = _call_decoder.decode
decode_memory: Any = _memory_decoder.decode
decode_outcome: Any = _outcome_decoder.decode
