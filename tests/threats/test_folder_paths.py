"""No path leads out of a Folder, however it is written, and whatever is moved or linked meanwhile."""

import os
import socket
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.harness.seeds import count
from toolhall.authoring import folder_files
from toolhall.authoring.folder import Folder
from toolhall.authoring.folder_files import FolderFiles

SECRET = "what is outside stays outside"
LIMIT = 10_000
pytestmark = pytest.mark.skipif(os.name == "nt", reason="makes links and FIFOs")


@pytest.fixture(params=[True, False], ids=["relative to directories", "by real paths"])
def each_way_to_open(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are opened relative to directories, or as on systems that cannot."""
    monkeypatch.setattr(folder_files, "_RELATIVE", request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with files, and with ways out of it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("secret.txt", ".env"):
        (outside / name).write_text(SECRET)
    (tmp_path / "root-evil").mkdir()
    (tmp_path / "root-evil/secret.txt").write_text(SECRET)
    root = tmp_path / "root"
    (root / "sub/deep").mkdir(parents=True)
    for inside in ("a.txt", "sub/b.txt", "sub/deep/c.txt"):
        (root / inside).write_text(inside)
    (root / ".hidden").write_text(SECRET)
    (root / ".git").mkdir()
    (root / ".git/config").write_text(SECRET)
    (root / "file-link").symlink_to("../outside/secret.txt")
    (root / "absolute-link").symlink_to(outside / "secret.txt")
    (root / "folder-link").symlink_to(outside)
    (root / "sub/up").symlink_to("../..")
    (root / "chain").symlink_to("file-link")
    (root / "loop").symlink_to("loop")
    (root / "null").symlink_to("/dev/null")
    (root / "zero").symlink_to("/dev/zero")
    (root / "process").symlink_to("/proc/self")
    os.mkfifo(root / "fifo")
    return root


def ways_out(root: Path) -> Iterator[str]:
    """Paths below `root` that must not be read."""
    ups = ["..", "%2e%2e", "%2E.", "..%2f..", "%252e%252e", "%c0%ae%c0%ae", "...", ".. ", "..\0", "..;", "\uff0e\uff0e"]
    separators = ["/", "%2f", "%2F", "%5c", "\\", "//", "/./", "%252f"]
    for up, separator in product(ups, separators):
        yield f"{up}{separator}outside{separator}secret.txt"
        yield f"sub{separator}{up}{separator}{up}{separator}outside{separator}secret.txt"
    outside = str(root.parent / "outside/secret.txt")
    yield from (
        outside,
        outside.replace("/", "%2f"),
        f"/{outside}",
        f"//{outside}",
        f"file://{outside}",
        f"./{outside}",
    )
    yield from (
        "C:\\Windows\\win.ini",
        "C:/Windows/win.ini",
        "C%3A/x",
        "c:a.txt",
        "\\\\server\\share\\x",
        "//server/share/x",
    )
    yield from (
        "file-link",
        "absolute-link",
        "folder-link/secret.txt",
        "sub/up/outside/secret.txt",
        "chain",
        "loop",
        "null",
    )
    yield from (
        "zero",
        "process/environ",
        "process/root/etc/passwd",
        "fifo",
        "sub",
        "",
        ".",
        "..",
        "/",
        "~",
        "~root/x",
        "-",
    )
    yield from (".hidden", ".git/config", "sub/../.hidden", "a.txt/..", "a.txt/../a.txt", "a.txt/", "/a.txt", "./a.txt")
    yield from (
        "sub//b.txt",
        "a.txt\0",
        "a.txt%00",
        "a.txt\0.png",
        "a.txt%00.png",
        "a.txt.",
        "a.txt ",
        "a.txt\n",
        "A.TXT\\",
    )
    yield from (
        "x" * 256,
        "x" * 5_000,
        "sub/" * 100 + "b.txt",
        "../" * 1_000 + "etc/passwd",
        "ü" * 200,
        "a.txt/" + "x" * 4_000,
    )
    yield from (
        "con",
        "nul",
        "aux.txt",
        "a.txt::$DATA",
        "%ff",
        "%zz",
        "\ud800",
        "../root-evil/secret.txt",
        "%2e%2e/root-evil/secret.txt",
    )


@pytest.mark.requirement("RS-10")
@pytest.mark.threat("H5")
@pytest.mark.usefixtures("each_way_to_open")
def test_folder_lets_none_of_200_paths_out(root: Path) -> None:
    """Tried as they are, and in the URI of a Folder, with both kinds of variables."""
    files = FolderFiles(root)
    folders = [Folder("s://f/{+path}", root), Folder("s://f{/path*}", root)]
    tried = 0
    for path in ways_out(root):
        tried += 1
        assert files.read(path, LIMIT) is None, path
        for folder in folders:
            variables = folder.template.match(f"s://f/{path}")
            # A URI may spell what is inside in another way: then it names a file that is inside.
            contents = folder.read(folder.path_of(variables), LIMIT) if variables else None
            assert contents is None or contents.content in {"a.txt", "sub/b.txt"}, path
    assert tried >= 200


@pytest.mark.threat("H5")
@pytest.mark.usefixtures("each_way_to_open")
def test_folder_serves_what_is_inside(root: Path) -> None:
    """The refusals above are not because nothing is served."""
    for path in ("a.txt", "sub/b.txt", "sub/deep/c.txt"):
        contents = FolderFiles(root).read(path, LIMIT)
        assert contents is not None
        assert contents.content == path


@pytest.mark.threat("H5")
@pytest.mark.usefixtures("each_way_to_open")
def test_folder_lists_no_link_no_hidden_and_no_special_file(root: Path) -> None:
    """What is listed is what can be read."""
    server = socket.socket(socket.AF_UNIX)
    with server:
        server.bind(str(root / "socket"))
        listing = FolderFiles(root).list_files()
    assert [each.path for each in listing.files] == ["a.txt", "sub/b.txt", "sub/deep/c.txt"]
    assert not listing.truncated


@pytest.mark.threat("H5")
def test_folder_never_reads_what_a_link_is_swapped_to(root: Path) -> None:
    """A directory and a file are swapped with links to outside, again and again, while they are read."""
    real, link = root / "swap", root / "swap-link"
    real.mkdir()
    (real / "secret.txt").write_text("inside")
    link.symlink_to(root.parent / "outside")
    (root / "secret-link").symlink_to(root.parent / "outside/secret.txt")
    (root / "secret.txt").write_text("inside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for one, other in ((real, link), (root / "secret.txt", root / "secret-link")):
                one.rename(root / "aside")
                other.rename(one)
                one.rename(other)
                (root / "aside").rename(one)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        read = [
            FolderFiles(root).read(path, LIMIT)
            for _ in range(count(300, 3_000))
            for path in ("swap/secret.txt", "secret.txt")
        ]
    finally:
        stop.set()
        swapping.join()
    assert {each.content for each in read if each} <= {"inside"}
