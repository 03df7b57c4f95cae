"""Skills that were made at random: what the list says of each file is what reading it gives."""

import base64
import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.local_mcp import ask, listed
from tests.harness.seeds import examples
from toolhall import Skills, Toolhall
from toolhall.authoring.folder_files import split_path

NAMES = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,4}){0,2}", fullmatch=True)
# Names that URIs encode, that look alike, or that other systems forbid; what is no name of a served file is left out.
PART = st.text(st.sampled_from("aB0 ._-~%#?&=+'()äß漢🙂\u0301\u200b[]"), min_size=1, max_size=6)
PATHS = st.lists(PART, min_size=1, max_size=3).map("/".join)
SUFFIXES = st.sampled_from(["", ".md", ".txt", ".json", ".png", ".bin", ".py", ".svg"])
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.text(st.characters(codec="utf-8"), max_size=40).map(str.encode),
    st.sampled_from(
        [b"", b"\r\n\r", b"\xef\xbb\xbfa", b"a\0b", b"\xff\xfe", b"\xed\xa0\x80", "\u2028\u202e\x7f\x1b[0m".encode()]
    ),
)
TEXTS = st.text(st.characters(max_codepoint=0x2FF), max_size=9)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(-(10**6), 10**6), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=5,
)


def write(root: Path, files: dict[str, bytes]) -> None:
    """Write what the file system takes; two names may be one to it."""
    for path, data in files.items():
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        except OSError:
            continue


@settings(max_examples=examples(1_000))
@given(name=NAMES, files=st.dictionaries(st.builds("{}{}".format, PATHS, SUFFIXES), CONTENTS, max_size=6), more=VALUES)
async def test_digest_and_size_are_those_of_what_is_read(name: str, files: dict[str, bytes], more: Any) -> None:
    main = (
        f"---\nname: {json.dumps(name)}\ndescription: x\nmore: {json.dumps(more)}\n---\nbody\r\n".encode()
    )  # JSON is YAML
    encoded = {path: data for path, data in files.items() if "%" not in path}  # `%25` may have no URI of its own
    with TemporaryDirectory() as folder:
        root = Path(folder) / name
        root.mkdir()
        write(root, {**encoded, "SKILL.md": main})
        with Toolhall(Skills(folder)) as hall:
            (skill,) = await listed(hall, "skills/list", "skills")
            assert skill["frontmatter"]["more"] == more
            assert await ask(hall, "skills/get", uri=skill["uri"]) | {"_meta": None} == {
                "skill": skill, "resultType": "complete", "ttlMs": 2_000, "cacheScope": "public", "_meta": None,
            }  # fmt: skip
            on_disk = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
            served = [path for path in on_disk if split_path(path) is not None]
            assert len(skill["resources"]) == len(served)
            read = [await _bytes(hall, each) for each in skill["resources"]]
            assert sorted(read) == sorted((root / path).read_bytes() for path in served)


async def _bytes(hall: Toolhall, file: dict[str, Any]) -> bytes:
    """What a client gets of a file, which must fit its digest and size."""
    (content,) = (await ask(hall, "resources/read", uri=file["uri"]))["contents"]
    data = content["text"].encode() if "text" in content else base64.b64decode(content["blob"])
    assert content["uri"] == file["uri"]
    assert (file["digest"], file["size"]) == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
    return data
