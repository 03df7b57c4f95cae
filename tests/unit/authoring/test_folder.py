"""A Folder: how it is declared, what its files are named, and what reading and listing give."""

import os
from pathlib import Path
from typing import Any

import pytest

from toolhall.authoring import folder_files
from toolhall.authoring.declaration import BadDeclaration, Toolkit
from toolhall.authoring.folder import Folder
from toolhall.authoring.folder_files import FileTooLarge, FolderFiles
from toolhall.authoring.mime_types import is_textual, mime_type_of

HERE = Path(__file__).parent


class Shop(Toolkit):
    """A toolkit with folders."""

    manuals = Folder("shop://manuals/{+path}", "manuals")
    named = Folder("shop://files{/path*}", "/srv", name="files", mime_type="text/plain; charset=utf-8")


def test_a_relative_directory_is_beside_the_file_of_the_class() -> None:
    assert Shop.manuals.directory == HERE / "manuals"
    assert Shop.manuals.name == "manuals"
    assert Shop.named.directory == Path("/srv")
    assert Shop.named.name == "files"


def test_a_folder_outside_of_a_class_is_below_the_working_directory() -> None:
    assert Folder("s://{+path}", "x").directory == Path.cwd() / "x"


def test_says_that_its_directory_is_missing(tmp_path: Path) -> None:
    assert Folder("s://{+path}", tmp_path).directory_problem() is None
    problem = Folder("s://{+path}", tmp_path / "gone").directory_problem()
    assert problem == f"there is no directory {str(tmp_path / 'gone')!r}; make it, or give another to Folder"


@pytest.mark.parametrize(
    ("template", "options", "reason"),
    [
        ("s://x", {}, "write one variable that spans segments for the file's path"),
        ("s://x/{path}", {}, "write one variable that spans segments"),
        ("s://{host}/{+path}", {}, "write one variable that spans segments"),
        ("s://x/{+path}{?v}", {}, "write one variable that spans segments"),
        ("s://x/{+path", {}, "a '{' is not closed"),
        ("s://x/{+path}", {"mime": "x"}, "a Folder has no option 'mime'; it takes name, title"),
        ("s://x/{+path}", {"level": 11}, "level is 11; use a whole number from 0 to 10"),
        ("s://x/{+path}", {"name": "a b"}, "'a b' is not a name"),
        ("s://x/{+path}", {"mime_type": "markdown"}, "use a type and a subtype, such as 'text/markdown'"),
    ],
)
def test_refuses_with_the_reason(template: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadDeclaration) as caught:
        Folder(template, "x", **options)
    assert reason in str(caught.value)


@pytest.mark.parametrize(("template", "path", "uri"), [
    ("s://x/{+path}", "a/b c.md", "s://x/a/b%20c.md"),
    ("s://x/{+path}", "ü?#.md", "s://x/%C3%BC?#.md"),
    ("s://x/{+path}", "50%.md", "s://x/50%25.md"),
    ("s://x/{+path}", "50%25.md", None),
    ("s://x{/path*}", "a/b c.md", "s://x/a/b%20c.md"),
    ("s://x{/path*}", "ü?#.md", "s://x/%C3%BC%3F%23.md"),
    ("s://x{/path*}", "50%25.md", "s://x/50%2525.md"),
])  # fmt: skip
def test_each_file_has_a_uri(template: str, path: str, uri: str | None) -> None:
    folder = Folder(template, "x")
    assert folder.uri_of(path) == uri
    if uri is not None:
        variables = folder.template.match(uri)
        assert variables is not None
        assert folder.path_of(variables) == path


@pytest.mark.parametrize(("name", "data", "mime_type", "content"), [
    ("a.md", "ü\r\n".encode(), "text/markdown", "ü\r\n"),
    ("a.json", b"{}", "application/json", "{}"),
    ("a.svg", b"<svg/>", "image/svg+xml", "<svg/>"),
    ("a.txt", b"\xff", "text/plain", b"\xff"),
    ("a.txt", b"\xef\xbb\xbfx", "text/plain", "\ufeffx"),
    ("a.PNG", b"text", "image/png", b"text"),
    ("LICENSE", b"free", "text/plain", "free"),
    ("data.unknown", b"a\0b", "application/octet-stream", b"a\0b"),
    ("data.unknown", b"\xff", "application/octet-stream", b"\xff"),
    ("empty.md", b"", "text/markdown", ""),
])  # fmt: skip
def test_reads_text_or_bytes(tmp_path: Path, name: str, data: bytes, mime_type: str, content: str | bytes) -> None:
    (tmp_path / name).write_bytes(data)
    contents = Folder("s://{+path}", tmp_path).read(name, 100)
    assert contents is not None
    assert (contents.mime_type, contents.content) == (mime_type, content)
    assert contents.modified == (tmp_path / name).stat().st_mtime


def test_a_stated_type_is_every_files_type(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"text")
    folder = Folder("s://{+path}", tmp_path, mime_type="text/plain; charset=utf-8")
    contents = folder.read("a.png", 100)
    assert contents is not None
    assert (contents.mime_type, contents.content) == ("text/plain; charset=utf-8", "text")
    assert folder.list_files().files[0].mime_type == "text/plain; charset=utf-8"


def test_reads_no_more_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 100)
    folder = Folder("s://{+path}", tmp_path)
    contents = folder.read("a.txt", 100)
    assert contents is not None
    assert contents.content == "x" * 100
    with pytest.raises(FileTooLarge, match="more than 99 bytes"):
        folder.read("a.txt", 99)


def test_lists_sizes_types_and_times_in_order(tmp_path: Path) -> None:
    for path in ("b.md", "a/z.txt", "a/b/c.bin", "a-b", "50%25"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
        os.utime(tmp_path / path, (1, 2))
    listing = Folder("s://{+path}", tmp_path).list_files()
    assert not listing.truncated
    assert [(each.path, each.size, each.modified, each.mime_type) for each in listing.files] == [
        ("50%25", 5, 2.0, None),
        ("a/b/c.bin", 9, 2.0, "application/octet-stream"),
        ("a/z.txt", 7, 2.0, "text/plain"),
        ("a-b", 3, 2.0, None),
        ("b.md", 4, 2.0, "text/markdown"),
    ]


def test_listings_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}").touch()
    listing = Folder("s://{+path}", tmp_path).list_files(5)
    assert [each.path for each in listing.files] == ["00", "01", "02", "03", "04"]
    assert listing.truncated
    assert not Folder("s://{+path}", tmp_path).list_files(20).truncated
    monkeypatch.setattr(folder_files, "MAX_SCANNED", 10)
    scanned = Folder("s://{+path}", tmp_path).list_files()
    assert len(scanned.files) == 10
    assert scanned.truncated


def test_listing_a_deep_tree_ends(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * (folder_files.MAX_DEPTH + 5))
    deep.mkdir(parents=True)
    (deep / "x").touch()
    (tmp_path / "d/y").touch()
    listed = [each.path for each in FolderFiles(tmp_path).list_files().files]
    assert listed == ["d/y"]
    assert all(FolderFiles(tmp_path).read(path, 1) for path in listed)


def test_a_missing_directory_has_no_file(tmp_path: Path) -> None:
    folder = Folder("s://{+path}", tmp_path / "gone")
    assert folder.read("a.txt", 1) is None
    with pytest.raises(FileNotFoundError):
        folder.list_files()


def test_the_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.txt").write_text("x")
    (tmp_path / "link").symlink_to("real")
    folder = Folder("s://{+path}", tmp_path / "link")
    assert folder.read("a.txt", 1) is not None
    assert [each.path for each in folder.list_files().files] == ["a.txt"]


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c.txt").write_text("x")
    (tmp_path / "a/b/link").symlink_to("c.txt")
    before = open_descriptors()
    for _ in range(20):
        for path in ("a/b/c.txt", "a/b/link", "a/b", "a/b/c.txt/d", "x/y/z"):
            FolderFiles(tmp_path).read(path, 10)
        FolderFiles(tmp_path).list_files()
    assert open_descriptors() == before


def test_types_are_known_by_suffix() -> None:
    assert mime_type_of("a.tar.gz") == "application/gzip"
    assert mime_type_of("README.MD") == "text/markdown"
    assert mime_type_of("md") is None
    assert mime_type_of("a.") is None
    assert is_textual("application/problem+json; charset=utf-8")
    assert not is_textual("application/pdf")
