# ruff: noqa: N802 - tests carry the names of their rows
"""A13, B11, F15, H5: what folders, skills and pages hold reaches those whom it is for, and does nothing by itself."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.local_mcp import McpError, ask, listed
from toolhall import BadDeclaration, Csp, Folder, Skills, Toolhall, resource
from toolhall.model.caller import Caller
from toolhall.model.tool import Tool
from toolhall.pipeline.policy import LevelPolicy

SECRET = "what is outside stays outside"


def write_skill(root: Path, name: str, front: str = "") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: x\n{front}\n---\n")
    return folder


@pytest.mark.threat("A13")
@pytest.mark.parametrize("member", ["connect", "resources", "frames", "base_uris"])
@pytest.mark.parametrize("origin", [
    "https://a.example; script-src *", "https://a.example 'unsafe-inline'", "https://a.example,https://b.example", "*",
    "https://a.example\r\nx-evil: 1", "data:", "'none'", "https://*", "javascript:alert(1)", "https://a.example\u2028",
])  # fmt: skip
def test_A13_text_that_could_end_a_directive_is_refused_where_a_page_is_declared(member: str, origin: str) -> None:
    """Every member of a page's policy takes origins, and nothing that a browser would read as more."""

    async def page() -> str:
        return "<html>"

    with pytest.raises(BadDeclaration, match="is no origin"):
        resource("ui://a", csp=Csp(**{member: [origin]}))(page)


@pytest.mark.threat("F15")
@pytest.mark.parametrize("front", [
    "a0: &a [x]\n" + "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)),
    "a: &a [*a]",
    "a: !!python/object/apply:os.system ['touch /tmp/owned']",
    "a: !!python/name:os.system",
    "a: " + "[" * 20_000,
    "a: " + "{b: " * 10_000,
    "- " * 20_000,
    "a: |\n " + "x" * 70_000,
])  # fmt: skip
def test_F15_front_matter_that_expands_or_makes_objects_is_refused_at_once(front: str, tmp_path: Path) -> None:
    """Bombs, cycles, tags and depth: the hall is not built, and says why in a moment."""
    write_skill(tmp_path, "x", front)
    began = time.process_time()
    with pytest.raises(BadDeclaration, match=r"SKILL\.md: "):
        Toolhall(Skills(tmp_path))
    assert time.process_time() - began < 2.0


@pytest.mark.threat("F15")
async def test_F15_front_matter_that_turns_bad_later_takes_only_its_own_skill_away(tmp_path: Path) -> None:
    """A running hall does not list such a skill any more, and goes on with the others."""
    bad, good = write_skill(tmp_path, "bad"), write_skill(tmp_path, "good")
    with Toolhall(Skills(tmp_path)) as hall:
        (bad / "SKILL.md").write_text("---\nname: bad\ndescription: &a [*a]\n---\n")
        assert [each["uri"] for each in await listed(hall, "skills/list", "skills")] == [
            f"skill://{good.name}/SKILL.md"
        ]
        with pytest.raises(McpError) as caught:
            await ask(hall, "skills/get", uri="skill://bad/SKILL.md")
        assert caught.value.code == -32602


@pytest.mark.threat("H5")
async def test_H5_no_way_out_of_a_skill_or_a_folder_over_mcp(tmp_path: Path) -> None:
    """Dots, links, encodings and drive letters in URIs read nothing outside, and say no more than that."""
    (tmp_path / "secret.txt").write_text(SECRET)
    folder = write_skill(tmp_path / "skills", "x")
    (folder / "link").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    ways = [
        "../../secret.txt", "..%2F..%2Fsecret.txt", "%2e%2e/%2e%2e/secret.txt", "link", "up/secret.txt", "/etc/passwd",
        "%2Fetc%2Fpasswd", "C:/secret.txt", "..\\..\\secret.txt", "..%5C..%5Csecret.txt", "a%00b", "./../../secret.txt",
        "%252e%252e/secret.txt", "SKILL.md/..", "x" * 300, "\uff0e\uff0e/secret.txt", ".git/config", "",
    ]  # fmt: skip
    with Toolhall(Skills(tmp_path / "skills"), Folder("f://files/{+path}", folder, name="files")) as hall:
        for base in ("skill://x/", "f://files/"):
            for way in ways:
                with pytest.raises(McpError) as caught:
                    await ask(hall, "resources/read", uri=base + way)
                assert caught.value.code == -32602
        shown = json.dumps(
            [await listed(hall, "skills/list", "skills"), await listed(hall, "resources/list", "resources")]
        )
        assert "secret" not in shown
        for uri in ("skill://x/up", "skill://x/..", "skill://x/../..", "skill:///", "skill://x//", "file:///"):
            with pytest.raises(McpError):
                await ask(hall, "resources/directory/read", uri=uri)


class WithoutHidden(LevelPolicy):
    """Nobody sees what is tagged as hidden."""

    def can_see_all(self, caller: Caller) -> bool:
        return False

    def can_see(self, caller: Caller, tool: Tool) -> bool:
        return "hidden" not in tool.tags


@pytest.fixture
async def limited(tmp_path: Path) -> AsyncIterator[Toolhall]:
    """A hall with a skill and a folder that this caller may not see, and one skill that it may."""
    write_skill(tmp_path / "a", "shown")
    write_skill(tmp_path / "b", "hidden")
    hidden: dict[str, Any] = {"tags": ["hidden"]}
    with Toolhall(
        Skills(tmp_path / "a"), Skills(tmp_path / "b", **hidden), Folder("f://x/{+path}", tmp_path, name="x", **hidden)
    ) as hall:
        for part in (hall.dispatcher, hall.dispatcher.stages.find):
            for name in ("policy", "_policy"):
                if hasattr(part, name):
                    setattr(part, name, WithoutHidden(clock=lambda: 0.0))
        yield hall


@pytest.mark.threat("B11")
@pytest.mark.parametrize("method", ["skills/get", "resources/directory/read", "resources/read"])
async def test_B11_hidden_skill_is_answered_like_one_that_is_not_there(limited: Toolhall, method: str) -> None:
    """List, get, directory and read: the same bytes but for the URI that was asked."""
    assert [each["uri"] for each in await listed(limited, "skills/list", "skills")] == ["skill://shown/SKILL.md"]
    names = [each["uri"] for each in await listed(limited, "resources/list", "resources")]
    assert names == ["skill://shown/SKILL.md"]
    said = []
    for name in ("hidden", "absent"):
        uri = f"skill://{name}" if method.endswith("directory/read") else f"skill://{name}/SKILL.md"
        with pytest.raises(McpError) as caught:
            await ask(limited, method, uri=uri)
        said.append((caught.value.code, str(caught.value).replace(name, "NAME")))
    assert said[0] == said[1]
    assert said[0][0] == -32602
