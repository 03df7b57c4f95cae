"""The lock file: contents, errors, and kinds of drift."""

import json
from typing import Any

import pytest

from tests.tables import each_row
from toolhall.contracts.digest import Digests
from toolhall.contracts.lockfile import (
    Drift,
    DriftKind,
    DuplicateTool,
    build_lock,
    compare_locks,
    lock_entry,
    read_lock,
    write_lock,
)
from toolhall.dialects.findings import BadDocument

ONE, TWO = (f"sha256-{digit * 64}" for digit in "12")
ENTRY = {"shown": ONE, "contract": TWO}


def test_write_lock_is_json_sorted_by_id() -> None:
    lock = build_lock([("b", Digests(ONE, TWO)), ("Calculator.Add@1.0.0", Digests(TWO, ONE))])
    written = write_lock(lock)
    assert json.loads(written) == {
        "lock": 1,
        "tools": {"Calculator.Add@1.0.0": {"shown": TWO, "contract": ONE}, "b": {"shown": ONE, "contract": TWO}},
    }
    assert list(json.loads(written)["tools"]) == ["Calculator.Add@1.0.0", "b"]
    assert written.count(b"\n") == 13  # a line for each digest, so that a review shows which one changed
    assert read_lock(written) == lock


def test_write_lock_is_ascii() -> None:
    lock = build_lock([("a\u202eb", Digests(ONE, TWO))])
    assert b"\\u202e" in write_lock(lock)
    assert read_lock(write_lock(lock)) == lock


def test_build_lock_duplicate_id_raises() -> None:
    with pytest.raises(DuplicateTool, match="two tools are called a"):
        build_lock([("a", Digests(ONE, TWO)), ("a", Digests(ONE, ONE))])


@each_row(
    ("document", "path", "fix"),
    [
        ([], "/lock", "write"),
        ({}, "/lock", '{"lock": 1'),
        ({"lock": True, "tools": {}}, "/lock", '{"lock": 1'),
        ({"lock": 2, "tools": {}}, "/lock", "newer toolhall; update"),
        ({"lock": 1}, "/tools", "object"),
        ({"lock": 1, "tools": {}, "tolos": {}}, "/tolos", "remove it"),
        ({"lock": 1, "tools": {"a/b": 1}}, "/tools/a~1b", "object"),
        ({"lock": 1, "tools": {"a": {"shown": ONE}}}, "/tools/a/contract", "toolhall lock"),
        ({"lock": 1, "tools": {"a": {**ENTRY, "shown": "sha256-1"}}}, "/tools/a/shown", "toolhall lock"),
        ({"lock": 1, "tools": {"a": {**ENTRY, "shown": ONE + "\n"}}}, "/tools/a/shown", "toolhall lock"),
        ({"lock": 1, "tools": {"a": {**ENTRY, "note": ""}}}, "/tools/a/note", "remove it"),
    ],
)
def test_read_lock_invalid_document_has_path_and_fix(document: Any, path: str, fix: str) -> None:
    with pytest.raises(BadDocument) as bad:
        read_lock(json.dumps(document).encode())
    said = {finding.path: finding.fix for finding in bad.value.findings}
    assert fix in said[path]


@each_row(
    ("body", "fix"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"lock": 1, "tools": {"a": 1, "a": 2}}', "'a' occurs twice"),
    ],
)
def test_read_lock_invalid_json_is_refused(body: bytes, fix: str) -> None:
    with pytest.raises(BadDocument, match=fix):
        read_lock(body)


@each_row(
    ("before", "after", "kind"),
    [
        (None, Digests(ONE, ONE), "added"),
        (Digests(ONE, ONE), None, "removed"),
        (Digests(ONE, ONE), Digests(TWO, ONE), "shown"),
        (Digests(ONE, ONE), Digests(ONE, TWO), "contract"),
        (Digests(ONE, ONE), Digests(TWO, TWO), "both"),
    ],
)
def test_compare_locks_drift_has_tool_and_kind(before: Digests | None, after: Digests | None, kind: Any) -> None:
    same = Digests(ONE, TWO)
    lock, found = ({"same": same, **({"tool": each} if each else {})} for each in (before, after))
    assert compare_locks(lock, found) == [Drift("tool", kind)]
    assert compare_locks(lock, lock) == []


def test_lock_entry_without_id_uses_name() -> None:
    document: dict[str, Any] = {"name": "search", "inputSchema": {"type": "object"}}
    assert lock_entry(document)[0] == "search"
    assert lock_entry({**document, "_meta": {"dev.toolhall/id": "Web.search@2.0.0"}})[0] == "Web.search@2.0.0"


def test_lock_entry_unknown_members_count_and_null_does_not() -> None:
    document: dict[str, Any] = {"name": "search", "inputSchema": {"type": "object"}}
    assert lock_entry({**document, "title": None, "_meta": None}) == lock_entry(document)
    before, after = (
        lock_entry({**document, "execution": {"taskSupport": each}})[1] for each in ("optional", "required")
    )
    assert (before.shown == after.shown, before.contract == after.contract) == (True, False)


def test_compare_locks_legacy_digest_is_no_drift() -> None:
    lock = {"a": Digests(ONE, TWO), "b": Digests(ONE, TWO)}
    now = {"a": Digests(ONE, ONE), "b": Digests(ONE, ONE)}
    former = {"a": Digests(ONE, TWO), "b": Digests(TWO, TWO), "c": Digests(ONE, ONE)}
    assert compare_locks(lock, now, former) == [Drift("b", "contract")]


def test_lock_entry_key_is_the_id_else_what_clients_find_it_by() -> None:
    stated = {"_meta": {"dev.toolhall/id": "Shop.order@1.0.0"}}
    tool = {"name": "order", "inputSchema": {"type": "object"}}
    resource, template = {"uri": "shop://a"}, {"uriTemplate": "shop://{a}"}
    prompt: dict[str, Any] = {"arguments": []}
    named = {"name": "order"}
    assert [lock_entry(each)[0] for each in (tool, resource | named, template | named, prompt | named)] == [
        "order", "shop://a", "shop://{a}", "prompts/order",
    ]  # fmt: skip
    assert {lock_entry(each | {"name": "Shop_order"} | stated)[0] for each in (tool, resource, template, prompt)} == {
        "Shop.order@1.0.0"
    }


@each_row(
    ("before", "after", "kind"),
    [
        ({"uri": "shop://a"}, {"uri": "shop://b"}, "both"),
        ({"uri": "shop://a"}, {"uri": "shop://a", "mimeType": "text/plain"}, "contract"),
        ({"uri": "shop://a"}, {"uri": "shop://a", "description": "New."}, "shown"),
        ({"arguments": []}, {"arguments": [{"name": "a", "required": True}]}, "contract"),
        ({"arguments": [{"name": "a"}]}, {"arguments": [{"name": "a", "description": "New."}]}, "shown"),
        ({"arguments": [{"name": "a"}]}, {"arguments": [{"name": "a", "x": 1}]}, "contract"),
    ],
)
def test_compare_locks_finds_changes_of_resources_and_prompts(before: Any, after: Any, kind: DriftKind) -> None:
    stated = {"name": "Shop_order", "_meta": {"dev.toolhall/id": "Shop.order@1.0.0"}}
    locks = [build_lock([lock_entry(stated | each)]) for each in (before, after)]
    assert compare_locks(*locks) == [Drift("Shop.order@1.0.0", kind)]
