"""Skills: which folders are skills, how they are named, and what their entries say."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.builders import Clock
from toolhall import BadDeclaration, Skills, Toolhall
from toolhall.authoring import skill_source
from toolhall.authoring.definition import definitions_of
from toolhall.authoring.folder_files import FileContents, FolderFiles, FolderListing
from toolhall.authoring.skill_source import MAX_FILES, SETTLED_SECONDS, SkillSource, skill_tool
from toolhall.config import Config
from toolhall.model.skill import Skill
from toolhall.model.tool import Tool


def skill_md(name: str, *more: str) -> str:
    return "\n".join(["---", f"name: {name}", f"description: About {name}.", *more, "---", "", "# Do it", ""])


def write_skill(root: Path, path: str, *more: str) -> Path:
    folder = root / path
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(skill_md(folder.name, *more))
    return folder


def loaded(skills: Skills) -> SkillSource:
    """The first skill, after its first scan."""
    folder = next(skills.find())
    source = SkillSource(folder, skill_tool(skills, folder))
    source.load(1_000_000)
    return source


def skill_of(tool: Tool) -> Skill:
    assert tool.resource is not None
    assert tool.resource.skill is not None
    return tool.resource.skill


def test_each_folder_with_a_skill_file_is_a_skill(tmp_path: Path) -> None:
    for path in ("refunds", "team/letters", "team/letters/inner"):
        write_skill(tmp_path, path)
    (tmp_path / "notes").mkdir()
    tools = [each.tool for each in definitions_of(Skills(tmp_path, prefix="acme"))]
    assert [str(tool.id) for tool in tools] == ["acme.refunds@0.1.0", "acme.letters@0.1.0", "acme.inner@0.1.0"]
    assert [tool.resource.uri for tool in tools if tool.resource] == [
        "skill://acme/refunds/{+path}", "skill://acme/team/letters/{+path}", "skill://acme/team/letters/inner/{+path}",
    ]  # fmt: skip


def test_files_of_a_nested_skill_belong_to_the_outer_one_too(tmp_path: Path) -> None:
    write_skill(tmp_path, "outer/inner")
    (tmp_path / "outer/SKILL.md").write_text(skill_md("outer"))
    skills = {tool.name: skill_of(tool) for tool in Toolhall(Skills(tmp_path)).registry.snapshot.resources.shown}
    assert {each.uri for each in skills["outer"].files} == {
        "skill://outer/SKILL.md", "skill://outer/inner/SKILL.md",
    }  # fmt: skip
    assert [each.uri for each in skills["inner"].files] == ["skill://outer/inner/SKILL.md"]


def test_options_apply_to_each_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "refunds")
    options: dict[str, Any] = {
        "name": "Letters", "version": "2.0.0", "level": 3, "tags": ["mail"], "fresh": 60, "shared": True,
    }  # fmt: skip
    (definition,) = definitions_of(Skills(tmp_path, "acme", **options))
    tool = definition.tool
    assert (str(tool.id), tool.name, tool.level, tool.tags) == (
        "Letters.refunds@2.0.0",
        "Letters_refunds",
        3,
        ("mail",),
    )
    assert tool.resource is not None
    assert (tool.resource.fresh, tool.resource.shared, tool.resource.exact) == (60.0, True, True)
    assert definition.versioned


def test_entry_has_front_matter_and_digests(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "refunds", "metadata:", "  reviewed: 2026-07-28", "  pages: 2")
    (folder / "data").mkdir()
    (folder / "data/table.bin").write_bytes(b"\x00\xff")
    (listed,) = loaded(Skills(tmp_path)).listed
    skill = skill_of(listed)
    assert (listed.name, listed.description) == ("refunds", "About refunds.")
    assert skill.front_matter == {
        "name": "refunds", "description": "About refunds.", "metadata": {"reviewed": "2026-07-28", "pages": 2},
    }  # fmt: skip
    assert {each.uri: (each.sha256, each.size) for each in skill.files} == {
        f"skill://refunds/{path}": (hashlib.sha256((folder / path).read_bytes()).hexdigest(), size)
        for path, size in (("SKILL.md", (folder / "SKILL.md").stat().st_size), ("data/table.bin", 2))
    }


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "no folder below"),
        ({"SKILL.md": ""}, "its own directory has a SKILL.md"),
        ({"Refunds/SKILL.md": ""}, "'Refunds' is no name of a skill; rename the folder"),
        ({"a--b/SKILL.md": ""}, "is no name of a skill"),
        ({f"{'a' * 65}/SKILL.md": ""}, "is no name of a skill"),
        ({"Team A/refunds/SKILL.md": ""}, "rename 'Team A'"),
        ({"a/x/SKILL.md": skill_md("x"), "b/x/SKILL.md": skill_md("x")}, "a/x and b/x are skills of one name"),
        ({"x/SKILL.md": "# no front matter"}, "SKILL.md: it does not begin with front matter"),
        ({"x/SKILL.md": skill_md("y")}, "its name is 'y'; write 'name: x'"),
        ({"7/SKILL.md": skill_md("7")}, "its name is '7'; write 'name: \"7\"'"),
        ({"x/SKILL.md": "---\nname: x\n---\n"}, "it has no description"),
        ({"x/SKILL.md": "---\nname: x\ndescription: 7\n---\n"}, "it has no description"),
        ({"x/SKILL.md": skill_md("x", "metadata: {io.modelcontextprotocol/a: 1}")}, "that prefix is reserved"),
        ({"x/SKILL.md": "---\nname: x\ndescription: \0\n---\n"}, "it is no text in UTF-8"),
        ({"x/SKILL.md": skill_md("x"), "x/100%25.md": ""}, "no URI can name the file '100%25.md'"),
        ({"x/SKILL.md": skill_md("x"), "x/large": "x" * 1025}, "more than 1024 bytes; make it smaller, or raise"),
        ({"x/SKILL.md": skill_md("x")} | {f"x/{n}": "" for n in range(MAX_FILES)}, "more than 512 files"),
    ],
)
def test_refuses_with_the_reason(files: dict[str, str], reason: str, tmp_path: Path) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with pytest.raises(BadDeclaration) as caught:
        Toolhall(Skills(tmp_path), config=Config(max_output_bytes=1024))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"prefix": "Acme"}, "the prefix 'Acme' cannot be in a URI"),
        ({"prefix": "a//b"}, "cannot be in a URI"),
        ({"prefix": "../x"}, "cannot be in a URI"),
        ({"level": 11}, "level is 11"),
        ({"fresh": -1}, "use seconds"),
        ({"listed": False}, "Skills has no option 'listed'; it takes name, version"),
        ({"version": "1"}, "1"),
    ],
)
def test_refuses_options_with_the_reason(arguments: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(BadDeclaration) as caught:
        Skills(tmp_path, **arguments)
    assert reason in str(caught.value)


def test_says_that_the_directory_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadDeclaration, match=r"there is no directory .*gone"):
        Toolhall(Skills(tmp_path / "gone"))


def test_files_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_skill(tmp_path, "x")
    for name in "ab":
        (folder / name).write_bytes(b"x" * 600)
    monkeypatch.setattr(skill_source, "MAX_TOTAL_BYTES", 1_000)
    with pytest.raises(BadDeclaration, match="have more than 0 MiB; move some out"):
        loaded(Skills(tmp_path))


def test_hidden_files_and_links_are_no_part_of_a_skill(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = write_skill(tmp_path / "skills", "x")
    (folder / ".env").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    (tmp_path / "skills/linked").symlink_to(folder)
    skills = Skills(tmp_path / "skills")
    assert [each.name for each in skills.find()] == ["x"]
    source = loaded(skills)
    assert [each.uri for each in skill_of(source.listed[0]).files] == ["skill://x/SKILL.md"]
    for path in (".env", "link", "folder/secret", "../secret", "..", ""):
        assert source.read(path=path) is None


# --- what changes on disk ---------------------------------------------------------------------------------------------


def test_scan_follows_changes_and_names_them(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "x")
    (folder / "a").write_text("one")
    (folder / "b").write_text("two")
    source = loaded(Skills(tmp_path))
    (folder / "a").write_text("three")
    (folder / "b").unlink()
    (folder / "c").write_text("four")
    scan = source.scan()
    assert set(scan.changed) == {"skill://x/a", "skill://x/b"}
    digests = {each.uri: each.sha256 for each in skill_of(scan.listed[0]).files}
    assert digests.keys() == {"skill://x/SKILL.md", "skill://x/a", "skill://x/c"}
    assert digests["skill://x/a"] == hashlib.sha256(b"three").hexdigest()
    assert source.scan().changed == ()


def test_a_file_that_changed_with_the_same_stamp_is_digested_again_until_it_settles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skills = Skills(tmp_path)
    file = write_skill(tmp_path, "x") / "a"
    file.write_text("one")
    status = file.stat()
    clock = Clock(status.st_ctime)
    folder = next(skills.find())
    source = SkillSource(folder, skill_tool(skills, folder), clock)
    source.load(1_000)
    # The same inode, size and times, as after a write within one tick of the file system's clock.
    listing = FolderFiles(folder.directory).list_files()

    def unchanged(_: FolderFiles, limit: int) -> FolderListing:
        assert limit == MAX_FILES + 1
        return listing

    monkeypatch.setattr(FolderFiles, "list_files", unchanged)
    file.write_text("two")
    assert source.scan().changed == ("skill://x/a",)
    clock.now += SETTLED_SECONDS + 1
    assert source.scan().changed == ()
    file.write_text("six")
    assert source.scan().changed == ()  # settled: only another stamp makes it look again


def test_a_skill_that_breaks_is_not_listed_until_it_is_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write_skill(tmp_path, "x") / "SKILL.md"
    source = loaded(Skills(tmp_path))
    whole = file.read_text()
    file.write_text("# gone")
    scan = source.scan()
    assert (scan.listed, scan.changed) == ((), ("skill://x/SKILL.md",))
    source.scan()
    assert caplog.text.count("the skill is not listed: SKILL.md: it does not begin with front matter") == 1
    file.write_text(whole)
    assert len(source.scan().listed) == 1


def test_an_unreadable_file_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_skill(tmp_path, "x")
    (folder / "a").write_text("one")
    source = loaded(Skills(tmp_path))
    read = FolderFiles.read

    def without_rights(files: FolderFiles, path: str, limit: int) -> FileContents | None:
        return None if path == "a" else read(files, path, limit)

    monkeypatch.setattr(FolderFiles, "read", without_rights)
    os.utime(folder / "a", (1, 1))
    assert [each.uri for each in skill_of(source.scan().listed[0]).files] == ["skill://x/SKILL.md"]
