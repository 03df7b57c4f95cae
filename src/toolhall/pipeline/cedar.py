"""CedarRules: Cedar policies in place of grants; any error in a policy denies the call."""

import importlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolhall.model.caller import Caller
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.tool import Kind, Tool
from toolhall.pipeline.access_rules import Conditional, Forbidden, Permitted, RuleDecision, Unmatched

_log = logging.getLogger("toolhall.cedar")
_INSTALL_HINT = "Cedar policies need the extra: pip install 'toolhall[cedar]'"
_INT64_LIMIT = 2**63
_ACTIONS: Mapping[Kind, str] = {"tool": "call", "resource": "read", "prompt": "prompt"}
_ENTITY_TYPES: Mapping[Kind, str] = {"tool": "Tool", "resource": "Resource", "prompt": "Prompt"}
_ESCAPE_MEMBERS = {
    "__entity",
    "__extn",
    "__expr",
}  # members by which Cedar reads an object as an entity or extension value


class BadPolicies(Exception):
    """The policies cannot be used; the message names the file and the reason."""


class _NotExpressible(Exception):
    """The arguments cannot be expressed as Cedar values."""


class CedarRules:
    """Access rules by Cedar policies.

    Entities: `Caller::"ci"` (member of a `Group::` for each scope), `Action::"call"`, and `Tool::"Kit.pick@1.0.0"`
    (member of `Toolkit::"Kit"`); `Action::"read"` and `Resource::`, `Action::"prompt"` and `Prompt::` likewise. The
    context has the arguments, or the variables of a URI. An error of any kind means Forbidden.
    """

    def __init__(self, text: str, name: str = "policies") -> None:
        self._cedar = _import_cedarpy()
        try:
            self._policies = self._cedar.PolicySet.from_str(text)
        except ValueError as error:
            raise BadPolicies(f"{name} cannot be used: {str(error)[:500]}") from None

    @classmethod
    def read(cls, path: Path) -> "CedarRules":
        """Read the policies of a file; raises BadPolicies."""
        try:
            return cls(path.read_text("utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise BadPolicies(f"{path} cannot be read: {error}") from None

    def decide(self, caller: Caller, tool: Tool, level: int) -> RuleDecision:
        """Decide only denials that no argument could change; every permission waits for the arguments."""
        if not caller.id.isprintable() or set('"\\') & set(caller.id):
            return Forbidden("cedar:name")  # a name that needs escapes would not be compared as it is
        request = {
            "principal": _entity_uid("Caller", caller.id),
            "action": _entity_uid("Action", _ACTIONS[tool.kind]),
            "resource": _tool_uid(tool),
        }
        try:
            response = self._cedar.is_authorized_partial(request, self._policies, _entities(caller, tool, level))
        except (ValueError, TypeError):
            _log.exception("the Cedar policies could not be asked about %s", tool.id)
            return Forbidden("cedar:error")
        if response.decision is not self._cedar.Decision.Deny:
            return Conditional()
        diagnostics = response.diagnostics
        deciding = diagnostics.must_be_determining
        return Forbidden(_policy_ids(diagnostics, deciding)) if deciding else Unmatched()

    def decide_arguments(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> RuleDecision:
        """Decide for the whole call, with its arguments as context."""
        try:
            context = _cedar_value(arguments)
        except _NotExpressible:
            return Forbidden("cedar:arguments")
        request = {
            "principal": {"type": "Caller", "id": caller.id},
            "action": {"type": "Action", "id": _ACTIONS[tool.kind]},
            "resource": {"type": _ENTITY_TYPES[tool.kind], "id": str(tool.id)},
            "context": {"arguments": context},
        }
        response = self._cedar.is_authorized(request, self._policies, _entities(caller, tool, level))
        errors = response.diagnostics.errors
        if errors:
            # In Cedar, a forbid policy that fails forbids nothing; here it denies the call.
            _log.warning("%s was refused, because a Cedar policy failed: %.500s", tool.id, errors[0])
            return Forbidden("cedar:error")
        if response.allowed:
            return Permitted(_policy_ids(response.diagnostics, response.diagnostics.reasons))
        reasons = response.diagnostics.reasons
        return Forbidden(_policy_ids(response.diagnostics, reasons)) if reasons else Unmatched()


def _import_cedarpy() -> Any:
    try:
        return importlib.import_module("cedarpy")
    except ImportError:
        raise BadPolicies(_INSTALL_HINT) from None


def _policy_ids(diagnostics: Any, policies: Sequence[str]) -> str:
    """Return the ids of the policies that decided, by their `@id` annotation if they have one."""
    named: Mapping[str, str] = diagnostics.id_annotations_by_reason
    return ",".join(f"cedar:{named.get(policy) or policy}" for policy in sorted(policies))


def _entities(caller: Caller, tool: Tool, level: int) -> str:
    identity = {
        "proof": caller.proof,
        "scopes": sorted(caller.scopes),
        "person": caller.person or "",
        "acting_for": caller.acting_for or "",
    }
    traits = {
        "level": level,
        "effect": tool.effect or "",
        "toolkit": tool.id.toolkit,
        "tool": tool.id.tool,
        "version": str(tool.id.version),
        "foreign": tool.foreign,
        "tags": list(tool.tags),
    }
    groups = [{"type": "Group", "id": scope} for scope in sorted(caller.scopes)]
    kit = [{"type": "Toolkit", "id": tool.id.toolkit}]
    return encode(
        [
            {"uid": {"type": "Caller", "id": caller.id}, "attrs": identity, "parents": groups},
            {"uid": {"type": _ENTITY_TYPES[tool.kind], "id": str(tool.id)}, "attrs": traits, "parents": kit},
        ]
    ).decode()


def _entity_uid(kind: str, name: str) -> str:
    """Return an entity uid in Cedar's syntax."""
    return f'{kind}::"{name}"'


def _tool_uid(tool: Tool) -> str:
    return _entity_uid(_ENTITY_TYPES[tool.kind], str(tool.id))


def _cedar_value(value: Json) -> Json:
    """Convert JSON to Cedar values: null is left out and fractions become texts, because Cedar has neither."""
    match value:
        case dict():
            if not _ESCAPE_MEMBERS.isdisjoint(value):
                raise _NotExpressible
            return {key: _cedar_value(each) for key, each in value.items() if each is not None}
        case list():
            return [_cedar_value(each) for each in value if each is not None]
        case bool() | str():
            return value
        case int():
            return value if -_INT64_LIMIT <= value < _INT64_LIMIT else str(value)
        case float():  # 5.0 is the same number as 5
            return _cedar_value(int(value)) if value.is_integer() else str(value)
        case _:  # UNKNOWN: a default that is not known here
            raise _NotExpressible
