"""Editing a client's file changes one entry and no other byte, and refuses what it does not understand."""

import json
import re
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhall.cli.install.json_edit import UneditableFile, read_json, remove_member, set_member
from toolhall.cli.install.toml_yaml_edit import (
    remove_toml_table,
    remove_yaml_entry,
    render_toml_table,
    render_yaml_entry,
    set_toml_table,
    set_yaml_entry,
    yaml_entry_names,
)

ENTRY: dict[str, Any] = {"command": "/bin/toolhall", "args": ["serve", 'a "b".py', "--stdio"], "env": {"A": "ü\n"}}
PATH = ("mcpServers", "mine")

ZED = """// Zed settings, {with} a brace
{
  /* theme */ "theme": "One Dark", // said at the end
  "context_servers": {
    // the first one
    "other": {"command": "x", "args": [],}, // stays
  },
  "tabs": [1, 2,],
}
"""


def test_client_file_edited_keeps_comments_commas_and_the_rest() -> None:
    path = ("context_servers", "mine")
    after = set_member(ZED, path, {"command": "y"})
    assert after == ZED.replace(
        '"args": [],}, // stays\n', '"args": [],}, // stays\n    "mine": {\n      "command": "y"\n    },\n'
    )
    assert read_json(after)["context_servers"]["mine"] == {"command": "y"}
    again = set_member(after, path, {"url": "z"})
    assert again == after.replace('"command": "y"', '"url": "z"')
    assert remove_member(again, path) == ZED


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '{\n  "a": {\n    "b": {}\n  }\n}\n'),
        ("// mine", '// mine\n{\n  "a": {\n    "b": {}\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": {}\n  }\n}'),
        ('{"x": 1}', '{"x": 1,\n  "a": {\n    "b": {}\n  }\n}'),
        ('{"a": {}}\n', '{"a": {\n  "b": {}\n}}\n'),
        ('{\n\t"x": 1\n}\n', '{\n\t"x": 1,\n\t"a": {\n\t\t"b": {}\n\t}\n}\n'),
        ('{\r\n    "x": 1 // y\r\n}', '{\r\n    "x": 1, // y\r\n    "a": {\r\n        "b": {}\r\n    }\r\n}'),
        ("{ // none yet\n}", '{ // none yet\n  "a": {\n    "b": {}\n  }\n}'),
        ('\ufeff{"a": {"b": 1}}', '\ufeff{"a": {"b": {}}}'),
    ],
)
def test_client_file_entry_written_follows_the_style_of_the_file(text: str, after: str) -> None:
    assert set_member(text, ("a", "b"), {}) == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"a": {"b": 1, "c": 2}}', '{"a": { "c": 2}}'),
        ('{"a": {"c": 2, "b": 1}}', '{"a": {"c": 2 }}'),
        ('{"a": {\n  "c": 2, // two\n  "b": 1\n}}', '{"a": {\n  "c": 2 // two\n}}'),
        ('{"a": {\n  "b": 1, // one\n  "c": 2\n}}', '{"a": {\n   // one\n  "c": 2\n}}'),
        ('{"a": {"b": 1}}', '{"a": {}}'),
    ],
)
def test_client_file_entry_removed_leaves_the_rest(text: str, after: str) -> None:
    assert remove_member(text, ("a", "b")) == after


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "holds no JSON object"),
        ('{\n"a": 1\n"b": 2}', "line 3, column 1: a comma"),
        ('{"a": {"b": }}', "this is not JSON"),
        ("{'a': 1}", "the name of a member"),
        ('{"a": 1} x', "the end was expected"),
        ('{"a": 1', "a comma or a closing brace"),
        ('{"a": [1 2]}', "a closing bracket"),
        ('{"a": {}, "a": {}}', "twice"),
        ('{"a": []}', "is not an object"),
        ('{"a": null}', "is not an object"),
        ('{"a": "\\x"}', "this is not JSON"),
        ('{"a" 1}', "a colon"),
        ("{/* never closed }", "the name of a member"),
        ('{"x":' + "[" * 500 + "]" * 500 + "}", "nested too deeply"),
    ],
)
def test_client_file_that_cannot_be_parsed_is_not_edited(text: str, said: str) -> None:
    with pytest.raises(UneditableFile, match=re.escape(said)):
        set_member(text, ("a", "b"), {})


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_TRIVIA = st.sampled_from(["", " ", "\n  ", "\n", "/* , { */", " // }\n", "\t"])


def _spelled(value: Any, draw: Any) -> str:
    """A value with comments, blanks and trailing commas wherever they may be."""
    match value:
        case dict() | list():
            parts = (
                [f"{json.dumps(key)}{draw(_TRIVIA)}:{_spelled(part, draw)}" for key, part in value.items()]
                if isinstance(value, dict)
                else [_spelled(part, draw) for part in value]
            )
            inside = ",".join(f"{draw(_TRIVIA)}{part}{draw(_TRIVIA)}" for part in parts)
            inside += "," if parts and draw(st.booleans()) else ""
            brackets = "{}" if isinstance(value, dict) else "[]"
            return f"{draw(_TRIVIA)}{brackets[0]}{inside}{draw(_TRIVIA)}{brackets[1]}"
        case _:
            return json.dumps(value)


@given(st.data(), st.dictionaries(st.text(max_size=5), _VALUES, max_size=4))
def test_client_file_of_any_content_edited_keeps_its_meaning(data: Any, document: dict[str, Any]) -> None:
    document[PATH[0]] = document.get(PATH[0]) if isinstance(document.get(PATH[0]), dict) else {"x": 1}
    text = _spelled(document, data.draw)
    assert read_json(text) == document
    after = set_member(text, PATH, ENTRY)
    assert read_json(after) == {**document, PATH[0]: {**document[PATH[0]], PATH[1]: ENTRY}}
    comments = re.findall(r"/\* , \{ \*/|// \}", text)
    assert re.findall(r"/\* , \{ \*/|// \}", after) == comments
    assert read_json(remove_member(after, PATH)) == document


CODEX = '''model = "gpt-5" # the best
notes = """
[mcp_servers.mine]
is only text here
"""
order = [
  [1],
]

[mcp_servers.other]
command = "x"

# about mine
[mcp_servers."mine"]
command = "old"
startup_timeout_sec = 20

[mcp_servers.mine.env]
A = "1"

# about the profile
[profiles.fast]
model = "mini"
'''
TOML_PATH = ("mcp_servers", "mine")


def test_client_file_toml_table_is_replaced_in_place_and_removed() -> None:
    after = set_toml_table(CODEX, TOML_PATH, ENTRY)
    assert tomllib.loads(after)["mcp_servers"] == {"other": {"command": "x"}, "mine": ENTRY}
    for kept in ("# the best", "is only text here", "# about mine", "# about the profile\n[profiles.fast]"):
        assert kept in after
    without = remove_toml_table(after, TOML_PATH)
    assert "mine" not in tomllib.loads(without)["mcp_servers"]
    assert set_toml_table("", TOML_PATH, ENTRY) == render_toml_table(TOML_PATH, ENTRY)
    added = set_toml_table('model = "x"', TOML_PATH, ENTRY)
    assert added == f'model = "x"\n\n{render_toml_table(TOML_PATH, ENTRY)}'
    assert remove_toml_table(added, TOML_PATH) == 'model = "x"\n'
    assert remove_toml_table(set_toml_table("[mcp_servers]\n", TOML_PATH, ENTRY), TOML_PATH).strip() == "[mcp_servers]"


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { mine = { command = "x" } }',
        "mcp_servers = { other = {} }",
        '[mcp_servers]\nmine = { command = "x" }',
        'mcp_servers.mine.command = "x"',
        "a = ",
        "mcp_servers = 1",
    ],
)
def test_client_file_toml_of_another_shape_is_left_alone(text: str) -> None:
    with pytest.raises(UneditableFile):
        set_toml_table(text, TOML_PATH, ENTRY)


@pytest.mark.parametrize("text", ["mcp_servers = {}", 'x = 1\nmcp_servers = { mine = { command = "x" } }\n[y]\n'])
def test_client_file_toml_with_inline_servers_is_left_alone(text: str) -> None:
    with pytest.raises(UneditableFile, match="is written inline"):
        set_toml_table(text, TOML_PATH, ENTRY)
    with pytest.raises(UneditableFile, match="is written inline"):
        remove_toml_table(text, TOML_PATH)
    other = "[profile]\nmcp_servers = {}\n"
    assert set_toml_table(other, TOML_PATH, ENTRY).startswith(other)


GOOSE = """# my goose
GOOSE_MODEL: x
extensions:
  # the builtin one
  developer:
    enabled: true
    text: |
      extensions:
      mine: no
  mine:
    enabled: false

# behind
GOOSE_MODE: auto
GOOSE_LIST:
- a
"""
YAML_PATH = ("extensions", "mine")


def test_client_file_yaml_entry_is_replaced_in_place_and_removed() -> None:
    after = set_yaml_entry(GOOSE, YAML_PATH, {"enabled": True, "args": ["a"]})
    assert after == GOOSE.replace("    enabled: false\n", '    enabled: true\n    args: ["a"]\n')
    without = remove_yaml_entry(after, YAML_PATH)
    assert without == GOOSE.replace("  mine:\n    enabled: false\n", "")
    assert set_yaml_entry(without, YAML_PATH, {"enabled": False}) == GOOSE
    alone = set_yaml_entry("", YAML_PATH, {"enabled": True})
    assert alone == render_yaml_entry(YAML_PATH, {"enabled": True}) == "extensions:\n  mine:\n    enabled: true\n"
    assert remove_yaml_entry(alone, YAML_PATH) == "extensions: {}\n"
    assert set_yaml_entry("extensions: {} # none\nx: 1", YAML_PATH, {"a": 1}) == (
        "extensions: # none\n  mine:\n    a: 1\nx: 1\n"
    )
    texts = "extensions:\n  a:\n    b: |\n      # a line of text\n\n# behind\n"  # found by comparing with PyYAML
    assert set_yaml_entry(texts, YAML_PATH, {"c": 1}) == texts.replace("\n\n#", "\n  mine:\n    c: 1\n\n#")
    assert yaml_entry_names("---\nx: 1\nextensions:\n    a:\n        b: 1\n    'c d':\n\ny: 2\n", "extensions") == [
        "a",
        "c d",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "extensions:\n  - name: mine\n",
        "extensions: {mine: {}}\n",
        "extensions: *others\n",
        "extensions:\n  mine: &anchor\n    a: 1\n  b: *anchor\n",
        "extensions:\n\tmine:\n\t\ta: 1\n",
        "extensions:\n    a:\n      x: 1\n  b:\n",
        "extensions:\nextensions:\n",
        "extensions:\n  <<: *a\n",
        "x: 1\n---\nextensions:\n",
        "- a\n- b\n",
        "{a: 1}\n",
        "extensions:\n  mine:\n  mine:\n",
        "extensions:\n  a:\n    b: |+\n      x\n\n",
    ],
)
def test_client_file_yaml_of_another_shape_is_left_alone(text: str) -> None:
    with pytest.raises(UneditableFile):
        set_yaml_entry(text, YAML_PATH, {"enabled": True})
