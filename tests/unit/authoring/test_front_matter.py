"""Front matter: what YAML becomes, and what is refused with the fix."""

import time

import pytest

from toolhall.authoring.front_matter import MAX_BYTES, MAX_DEPTH, BadFrontMatter, read_front_matter


def front_matter(yaml: str) -> object:
    return read_front_matter(f"---\n{yaml}\n---\nbody\n")


@pytest.mark.parametrize(
    ("yaml", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("on", "on"),
        ("2026-07-28", "2026-07-28"),
        ("12:30:00", "12:30:00"),
        ("010", "010"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("9" * 40, "9" * 40),
        ("'1'", "1"),
        ('"true"', "true"),
        ('"\\u00e4\\n"', "ä\n"),
        ("[a, 1, {b: c}]", ["a", 1, {"b": "c"}]),
        ("{a: {b: [c]}}", {"a": {"b": ["c"]}}),
        (">\n  one\n  two", "one two\n"),
        ("|\n  one\n  two", "one\ntwo\n"),
        ("&anchor text", "text"),
        ("a # comment", "a"),
    ],
)
def test_values_are_json(yaml: str, value: object) -> None:
    read = front_matter(f"value: {yaml}")
    assert isinstance(read, dict)
    assert read["value"] == value
    assert type(read["value"]) is type(value)


def test_keys_are_text() -> None:
    assert front_matter("1: a\nyes: b\n'c d': e\n<<: f") == {"1": "a", "yes": "b", "c d": "e", "<<": "f"}


@pytest.mark.parametrize("text", [
    "---\nname: a\n---", "---\r\nname: a\r\n---\r\nbody", "\ufeff---\nname: a\n---\n", "--- \nname: a\n---\t\n---\n",
])  # fmt: skip
def test_block_ends_at_the_second_line(text: str) -> None:
    assert read_front_matter(text) == {"name": "a"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not begin with front matter"),
        ("# title\n---\nname: a\n---\n", "does not begin with front matter"),
        ("---\nname: a\n", "does not begin with front matter"),
        ("----\nname: a\n---\n", "does not begin with front matter"),
        (f"---\na: {'x' * (MAX_BYTES + 16)}\n---\n", "64 KiB at most"),
        ("---\n\n---\n", "is no mapping"),
        ("---\n- a\n---\n", "is no mapping"),
        ("---\ntext\n---\n", "is no mapping"),
        ("---\na: [\n---\n", "is no YAML in line"),
        ("---\na: b: c\n---\n", "is no YAML in line 2"),
        ("---\na: \0\n---\n", "is no YAML"),
        ("---\na: 1\n--- \nb: 2\n---\n", ""),
        ("---\na: 1\n...\n--- {b: 2}\n---\n", "more than one YAML document"),
        ("---\na: 1\na: 2\n---\n", "has the key 'a' twice"),
        ("---\n? [a]\n: b\n---\n", "has a key that is no text"),
        ("---\n? !!int 1\n: b\n---\n", "has a key that is no text"),
        ("---\na: &x [1]\nb: *x\n---\n", "has the alias *x; write its value again (line 3)"),
        ("---\na: &x {b: *x}\n---\n", "has the alias *x"),
        ("---\na: !!python/object/apply:os.system [id]\n---\n", "has the tag tag:yaml.org,2002:python/object"),
        ("---\na: !!timestamp 2026-07-28\n---\n", "has the tag"),
        ("---\na: !local x\n---\n", "has the tag !local"),
        (f"---\na: {'[' * MAX_DEPTH}{']' * MAX_DEPTH}\n---\n", f"more than {MAX_DEPTH} levels"),
        (f"---\n{'[' * 30_000}\n---\n", f"more than {MAX_DEPTH} levels"),
        (f"---\n{'{a: ' * 10_000}\n---\n", f"more than {MAX_DEPTH} levels"),
        (f"---\n{'- ' * 30_000}\n---\n", f"more than {MAX_DEPTH} levels"),
    ],
)
def test_refuses_with_the_reason(text: str, reason: str) -> None:
    if not reason:  # what is behind the second line is no front matter
        assert read_front_matter(text) == {"a": 1}
        return
    with pytest.raises(BadFrontMatter) as caught:
        read_front_matter(text)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_bomb_of_aliases_is_refused_before_it_expands() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    began = time.process_time()
    with pytest.raises(BadFrontMatter, match="alias"):
        front_matter("\n".join(lines))
    assert time.process_time() - began < 1.0
